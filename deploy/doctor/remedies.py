"""Commands and sentences that several rows of the doctor's catalogue offer as a remedy."""

DEPLOY = "pyinfra INVENTORY deploy.py"
BOOT = "systemctl reboot (a virtual machine: stop and start it at the provider), then " + DEPLOY
VENDOR = "ask the provider for another card, with the report that nvidia-bug-report.sh collects"
