"""Signatures of bundles, made and verified by ssh-keygen with the key that signs engines, in a separate namespace."""

import os
import subprocess
import tempfile
from pathlib import Path

from deploy.io.local_paths import local_path
from deploy.refusals import Refusal
from deploy.spec import EngineTrust

NAMESPACE = "enginehouse-bundle"
PRINCIPAL = "enginehouse"


def sign(text: bytes, trust: EngineTrust) -> bytes:
    """The signature over `text`. Raises: a Refusal if the key cannot sign without a passphrase."""
    key = str(local_path(trust.key))
    with tempfile.TemporaryDirectory(prefix="enginehouse-") as folder:
        file = Path(folder) / "text"
        file.write_bytes(text)
        done = _quietly(["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", key, str(file)])
        if done.returncode == 0 and (signature := file.with_name("text.sig")).exists():
            return signature.read_bytes()
    raise unusable(trust, done.stderr)


def is_signed(text: bytes, signature: Path, trust: EngineTrust) -> bool:
    with tempfile.NamedTemporaryFile("w", prefix="enginehouse-signers-") as believed:
        words = [key.split() for key in (public_key(trust), *trust.signers) if key.strip()]
        lines = [f'{PRINCIPAL} namespaces="{NAMESPACE}" {" ".join(parts[:2])}\n' for parts in words]
        believed.write("".join(lines))
        believed.flush()
        who = ["-f", believed.name, "-I", PRINCIPAL, "-n", NAMESPACE, "-s", str(signature)]
        return _quietly(["ssh-keygen", "-Y", "verify", *who], text).returncode == 0


def public_key(trust: EngineTrust) -> str:
    """The public half of the key: the file itself, the .pub file beside it, or the one that ssh-keygen derives."""
    key = local_path(trust.key)
    public = key if key.suffix == ".pub" else key.with_name(f"{key.name}.pub")
    if public.is_file():
        return public.read_text("utf-8")
    done = _quietly(["ssh-keygen", "-y", "-f", str(key)])
    if done.returncode:
        raise unusable(trust, done.stderr)
    return done.stdout.decode()


def _quietly(argv: list[str], text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Runs the command without a terminal, so that a passphrase is an error instead of an invisible question."""
    environment = os.environ | {"SSH_ASKPASS_REQUIRE": "never"}
    return subprocess.run(argv, input=text, capture_output=True, check=False, start_new_session=True, env=environment)


def unusable(trust: EngineTrust, stderr: bytes) -> Refusal:
    """The refusal of a key that cannot sign or be read."""
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    return Refusal(
        f"engine_trust: {trust.key} signs no bundle",
        facts={"said": lines[-1] if lines else "nothing"},
        attempt="name a key file without a passphrase, or add the key to your agent and name its .pub file",
        state="no bundle was signed",
        kind="unusable-signing-key",
    )
