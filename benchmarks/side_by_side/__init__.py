"""The same 29 operations twice: in the form of the roles here (`ours.py`) and as an Ansible playbook (`site.yml`)."""
