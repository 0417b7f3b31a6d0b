"""Texts with a secret are refused; texts that only resemble a secret are accepted."""

from __future__ import annotations

import pytest

from deploy.refusals.secrets_in_text import secret_in, typed_out, without_secrets

SECRET = "canary4711canary"


@pytest.mark.parametrize(
    "text",
    [
        f"https://user:{SECRET}@hub.example/path",
        f"https://{SECRET}@hub.example",
        f"https://user:with@{SECRET}@hub.example",
        f"socks5://user:{SECRET}@proxy.example:1080",
        f"https://hub.example/file?access_token={SECRET}",
        f"https://store.example/engine?a=b&X-Amz-Signature={SECRET}",
        f"--env HF_TOKEN={SECRET}",
        f"proxy_password={SECRET}",
        f"Authorization: Bearer {SECRET}",
        f"hf_{SECRET}",
        f"the key is nvapi-{SECRET}",
        f"xhf_{SECRET}{SECRET}",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{SECRET}",
    ],
)
def test_a_secret_in_a_text_is_detected_and_masked(text: str) -> None:
    """A secret is detected by its place in a URL, its name, or its shape."""
    assert secret_in(text)
    assert SECRET not in without_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://huggingface.co",
        "ssh://git@host.example/repository",
        "deploy@store.example:/srv/engines",
        "store@v2:/srv/engines",
        "max_num_tokens=8192",
        'Hub(token=Secret.env("HF_TOKEN"))',
        "token=$HF_TOKEN",
        "0e9e39f249a16976918f6564b8830bc894c89659",
        "sha256:" + "0" * 64,
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJlZWYgZm9yIGRpbm5lcg build farm",
        "task-oriented-embeddings-large",
        "/home/hf_cache/weights",
    ],
)
def test_a_text_without_a_secret_stays_unchanged(text: str) -> None:
    """Cases: a commit, a digest, a public key, a user of SSH."""
    assert (secret_in(text), without_secrets(text)) == ("", text)


def test_a_secret_is_named_by_its_place() -> None:
    """The place goes down to the last dictionary and list."""
    secrets = typed_out({"proxies": [{"http": f"http://a:{SECRET}@b"}], "token": SECRET, "size": 3}, "docker.daemon")
    assert list(secrets) == [
        ('docker.daemon["proxies"][0]["http"]', "a URL with a password or token before its @, 27 characters"),
        ('docker.daemon["token"]', "a token or password under its name, 16 characters"),
    ]
