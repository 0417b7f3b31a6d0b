"""29 operations in two forms: as the roles here write them (`ours.py`), and as an Ansible playbook (`site.yml`)."""
