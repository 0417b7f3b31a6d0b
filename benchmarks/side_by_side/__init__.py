"""29 operations in two forms: as the roles here write them (`as_role.py`), and as an Ansible playbook (`site.yml`)."""
