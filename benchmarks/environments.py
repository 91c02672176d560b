"""An environment for each lock library, because some cannot share one: made when first needed, from pinned versions."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.peers.base import Peer

__all__ = ["ROOT", "EnvironmentFailedError", "interpreter"]

ROOT = Path(__file__).resolve().parent.parent
_FOLDER = ROOT / ".venv-peers"
_ALWAYS = ("uvloop==0.23.0",)


class EnvironmentFailedError(RuntimeError):
    """A peer's packages cannot be installed here; the peer is reported as missing."""


def interpreter(peer: Peer) -> Path:
    """Return the Python that has what *peer* needs: our own, or that of its environment."""
    if not peer.requires:
        return Path(sys.executable)
    packages = peer.requires + _ALWAYS
    folder = _FOLDER / _name(peer)
    stamp = folder / "installed"
    if not stamp.exists() or stamp.read_text().split() != [*packages, sys.version.split()[0]]:
        _make(folder, packages)
        stamp.write_text("\n".join((*packages, sys.version.split()[0])))
    return folder / "bin" / "python"


def _name(peer: Peer) -> str:
    """Return the environment's name: peers that differ in settings only share one."""
    return peer.requires[0].split("==")[0].split("[")[0]


def _make(folder: Path, packages: tuple[str, ...]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    command = [
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        *packages,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise EnvironmentFailedError(f"cannot install {' '.join(packages)}: {said[-1]}")
