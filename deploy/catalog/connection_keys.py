"""Host data that pyinfra reads itself: settings of its SSH connector and arguments of every operation.

From pyinfra 3.10.0, `connectors/ssh.py` and `api/arguments.py`, read 2026-11-27; a test compares them with the
installed version.
"""

SSH_KEYS = (
    *("ssh_hostname", "ssh_port", "ssh_user", "ssh_password", "ssh_key", "ssh_key_password", "ssh_allow_agent"),
    *("ssh_look_for_keys", "ssh_forward_agent", "ssh_config_file", "ssh_known_hosts_file"),
    *("ssh_strict_host_key_checking", "ssh_paramiko_connect_kwargs", "ssh_connect_retries"),
    *("ssh_connect_retry_min_delay", "ssh_connect_retry_max_delay", "ssh_file_transfer_protocol"),
)
OPERATION_KEYS = (
    *("_sudo", "_sudo_user", "_use_sudo_login", "_sudo_password", "_preserve_sudo_env"),
    *("_su_user", "_use_su_login", "_preserve_su_env", "_su_shell", "_su_password"),
    *("_doas", "_doas_user", "_dzdo", "_dzdo_user"),
    *("_shell_executable", "_chdir", "_env", "_success_exit_codes", "_timeout", "_get_pty", "_stdin", "_temp_dir"),
    *("_ignore_errors", "_continue_on_error", "_if", "_parallel", "_run_once", "_serial"),
    *("_retries", "_retry_delay", "_retry_until"),
)
SWITCHES = (
    *("ssh_allow_agent", "ssh_look_for_keys", "ssh_forward_agent", "_sudo", "_use_sudo_login", "_preserve_sudo_env"),
    *("_use_su_login", "_preserve_su_env", "_doas", "_dzdo", "_get_pty"),
)
"""Keys that are True or False."""
NUMBERS = {
    "ssh_connect_retries": (0, 100, "attempts"),
    "ssh_connect_retry_min_delay": (0, 3600, "seconds"),
    "ssh_connect_retry_max_delay": (0, 3600, "seconds"),
    "_timeout": (1, 86_400, "seconds"),
    "_retries": (0, 100, "attempts"),
    "_retry_delay": (0, 3600, "seconds"),
}
"""Keys whose value is a number, with its minimum, maximum and unit."""
TEXTS = (*("ssh_file_transfer_protocol", "_su_shell", "_shell_executable", "_chdir", "_temp_dir"),)
DICTIONARIES = ("ssh_paramiko_connect_kwargs", "_env")
OUT_OF_STEP = (
    *("_ignore_errors", "_continue_on_error", "_if", "_run_once", "_serial", "_parallel", "_stdin"),
    *("_success_exit_codes", "_retry_until"),
)
"""Arguments that make sense for a single operation, and do harm if they hold for all operations."""
PASSWORDS = {
    "ssh_password": 'ssh-copy-id USER@HOST, then "ssh_key": "~/.ssh/id_ed25519" in its place',
    "ssh_key_password": "ssh-add KEY, which asks for it once; leave ssh_key_password out",
    "_sudo_password": "on the host, as root: echo 'USER ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/90-USER",
    "_su_password": '"_sudo": True, with a login user who may use sudo without a password',
}
"""Keys whose value is a password, which pyinfra keeps as text and prints; and the alternative to each."""
