from __future__ import annotations

import json
from pathlib import Path

import pytest

from server.__main__ import main
from tests.bench.helpers import fake_server
from tests.fakes import TOOL_CALL, byte_vocabulary
from tests.serving import live, rig

Captured = pytest.CaptureFixture[str]


def says(tokens: tuple[int, ...]) -> int:
    """Calls, unless thanks or poems are asked for."""
    prompt = byte_vocabulary().decode(list(tokens))
    return ord("G") if b"Thank" in prompt or b"haiku" in prompt else TOOL_CALL


def test_a_bias_is_proposed_from_where_answers_begin(tmp_path: Path, capfd: Captured) -> None:
    assert main(["bench", "init", str(tmp_path)]) == 0
    with live(rig(says)) as server:
        given = [server.url, "--dataset", str(tmp_path), "--skip", "0"]
        assert main(["bench", "calibrate", *given]) == 0
        assert main(["bench", "calibrate", *given, "--template", "native", "chatml"]) == 0
        assert main(["bench", "calibrate", *given, "--template", "nobody"]) == 1
    out, err = capfd.readouterr()
    one, both = (json.loads(line) for line in out.splitlines() if line.startswith("{"))
    [found] = one["calibrations"]
    assert (one["model"], found["template"], found["auc"]) == ("scripted", None, 1)
    assert (found["kept"]["right"], found["refused"]["right"]) == (5, 2)
    assert {case["needed"] for case in found["cases"] if case["margin"] > 0} == {True}
    assert "keeps 5 of 5 needed calls and refuses 2 of 2 needless ones (2 without it)" in out
    assert [found["template"] for found in both["calibrations"]] == ["native", "chatml"]
    assert "there is no template 'nobody'" in err


def test_what_cannot_be_calibrated_is_said(tmp_path: Path, capfd: Captured) -> None:
    assert main(["bench", "init", str(tmp_path)]) == 0
    data = ["--dataset", str(tmp_path)]
    calibrate = ["bench", "calibrate", *data]
    assert main([*calibrate, "--keep", "2"]) == 1
    assert "--keep is a share" in capfd.readouterr().err
    assert main(calibrate) == 1  # none is left after the first hundred
    assert "--skip 100 leaves no case" in capfd.readouterr().err
    assert main([*calibrate, "--skip", "0", "--rows", "1"]) == 1
    assert "that need none are necessary" in capfd.readouterr().err
    with fake_server() as server:
        assert main(["bench", "calibrate", server.url, *data, "--skip", "0"]) == 1
    assert "does not tell how likely a call is" in capfd.readouterr().err
