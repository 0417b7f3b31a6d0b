"""The same 29 operations twice: as roles here do them (`ours.py`) and as an Ansible playbook (`site.yml`)."""
