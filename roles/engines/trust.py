"""Signs engines on the control machine with ssh-keygen, and lists the keys whose signatures a host accepts.

Only ssh-keygen reads the private key, on this machine; a key in an agent is named by its public half. Hosts get public
keys.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import IO

from gevent import subprocess

from deploy.io.local_paths import local_path
from deploy.refusals import Refusal
from deploy.spec import EngineTrust
from roles._shipping.texts import HERE

NAMESPACE = "enginehouse-engine"
PRINCIPAL = "enginehouse"
VERIFY = HERE / "files" / "host"
STATE = "the engine is built and not signed; running servers are not affected"


def sign(text: bytes, trust: EngineTrust) -> bytes:
    """The signature over `text`. Refuses if ssh-keygen would need a passphrase."""
    key = local_path(trust.key)
    with tempfile.TemporaryDirectory(prefix="enginehouse-") as folder:
        file = Path(folder) / "engine.json"
        file.write_bytes(text)
        done = _quietly(["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key), str(file)])
        if done.returncode or not (sealed := file.with_name("engine.json.sig")).exists():
            raise _cannot_sign(trust, done.stderr)
        return sealed.read_bytes()


def unusable(trust: EngineTrust | None) -> Refusal | None:
    """The reason why the key cannot sign; None for a usable key. Checked before a build, which takes an hour."""
    if trust is None:
        return Refusal("this inventory has no key to sign engines", attempt="engine_trust=EngineTrust(key=…)")
    try:
        sign(b"is this key of any use?\n", trust)
    except Refusal as problem:
        return problem
    return None


def signers(trust: EngineTrust) -> str:
    """Signers that a host trusts, in ssh-keygen's format: one line for each public key."""
    keys = [public_key(trust), *trust.signers]
    words = [key.split() for key in keys if key.strip()]
    return "".join(f'{PRINCIPAL} namespaces="{NAMESPACE}" {" ".join(parts[:2])}\n' for parts in words)


def public_key(trust: EngineTrust) -> str:
    """The public half of the key: the file itself, the .pub file beside it, or the one that ssh-keygen derives."""
    key = local_path(trust.key)
    public = key if key.suffix == ".pub" else key.with_name(f"{key.name}.pub")
    if public.is_file():
        return public.read_text()
    done = _quietly(["ssh-keygen", "-y", "-f", str(key)])
    if done.returncode:
        raise _cannot_sign(trust, done.stderr)
    return str(done.stdout)


def is_believed(directory: Path, trust: EngineTrust) -> bool:
    """True if the engine's record is signed with a key of this inventory; its other files are not read."""
    record, signature = directory / "engine.json", directory / "engine.json.sig"
    if not (record.is_file() and signature.is_file()):
        return False
    with tempfile.NamedTemporaryFile("w", prefix="enginehouse-signers-") as believed, record.open("rb") as text:
        believed.write(signers(trust))
        believed.flush()
        who = ["-f", believed.name, "-I", PRINCIPAL, "-n", NAMESPACE, "-s", str(signature)]
        return bool(_quietly(["ssh-keygen", "-Y", "verify", *who], text).returncode == 0)


def problem_of(directory: Path, trust: EngineTrust) -> str:
    """The problem of an engine's directory on the control machine, with every byte read; empty without a problem."""
    with tempfile.NamedTemporaryFile("w", prefix="enginehouse-signers-") as believed:
        believed.write(signers(trust))
        believed.flush()
        done = _quietly([sys.executable, str(VERIFY), "engine", "verify", str(directory), "--signers", believed.name])
    if done.returncode == 0:
        return ""
    lines: list[str] = (done.stdout + done.stderr).strip().splitlines()
    return lines[0] if lines else "it cannot be checked"


def _quietly(argv: list[str], text: IO[bytes] | None = None) -> subprocess.CompletedProcess:
    """Runs the command without a terminal, so that a passphrase is an error instead of an invisible question."""
    environment = os.environ | {"SSH_ASKPASS_REQUIRE": "never"}
    return subprocess.run(
        argv,
        stdin=text or subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
        env=environment,
    )


def _cannot_sign(trust: EngineTrust, stderr: str) -> Refusal:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return Refusal(
        f"engine_trust: {trust.key} cannot sign",
        facts={"said": lines[-1] if lines else "nothing"},
        attempt="name a key file without a passphrase, or add the key to your agent and name its .pub file",
        state=STATE if Path(trust.key).exists() else "nothing was built",
        kind="unusable-signing-key",
    )
