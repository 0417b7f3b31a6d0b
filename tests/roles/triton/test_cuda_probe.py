"""The CUDA probe, with a stand-in of the driver library."""

from __future__ import annotations

from typing import Any

import pytest

from host import cuda_probe as probe


class FakeDriver:
    """libcuda as ctypes shows it: every call succeeds, except a call that a test breaks."""

    def __init__(self, gpus: int = 1, **codes: int) -> None:
        self.gpus, self.codes = gpus, codes

    def __getattr__(self, call: str) -> Any:
        def answer(*arguments: Any) -> int:
            if call == "cuDeviceGetCount":
                arguments[0]._obj.value = self.gpus
            if call == "cuDriverGetVersion":
                arguments[0]._obj.value = 13000
            if call == "cuDeviceGetName":
                arguments[0].value = b"NVIDIA H100 80GB HBM3"
            if call == "cuDeviceTotalMem_v2":
                arguments[0]._obj.value = 81_079 << 20
            return self.codes.get(call, 0)

        return answer


def call(driver: FakeDriver | None, monkeypatch: pytest.MonkeyPatch, gpus: str = "1") -> int:
    """The probe's exit status."""

    def load(name: str) -> FakeDriver:
        if driver is None:
            raise OSError(name)
        return driver

    monkeypatch.setattr(probe.ctypes, "CDLL", load)
    monkeypatch.setattr(probe.sys, "argv", ["cuda_probe.py", gpus])
    try:
        return int(probe.main())
    except SystemExit as ended:
        return int(str(ended.code))


def test_a_gpu_that_gives_memory_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(FakeDriver(), monkeypatch) == 0
    assert capsys.readouterr().out == "GPU 0: NVIDIA H100 80GB HBM3, 81,079 MiB, CUDA driver 13.0\n"


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        (None, "libcuda.so.1 is not in the container"),
        (FakeDriver(cuInit=803), "cuInit answers 803: kernel module and driver library are of different versions"),
        (FakeDriver(cuInit=804), "the image's CUDA is newer than this driver serves"),
        (FakeDriver(cuInit=100), "no GPU is visible in the container"),
        (FakeDriver(gpus=2), "2 GPUs are visible in the container; the server was given 1"),
        (FakeDriver(cuMemAlloc_v2=2), "cuMemAlloc_v2 answers 2: see CUresult in cuda.h"),
    ],
)
def test_each_failure_is_reported_with_its_remedy(
    driver: FakeDriver | None, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(driver, monkeypatch) == 1
    assert words in capsys.readouterr().err
