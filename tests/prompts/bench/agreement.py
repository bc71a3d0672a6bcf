"""How far our scoring agrees with BFCL's own AST checker, on answers made of the right ones.

    python -m tests.prompts.bench.agreement ARCHIVE UNPACKED

ARCHIVE is the wheel of bfcl-eval, UNPACKED a folder with its content: this executes the checker in
it, so do it in an environment that may be thrown away. The checker needs nothing but the standard
library once its list of models, which imports the clients of all vendors, is replaced.
"""

from __future__ import annotations

import importlib
import random
import sys
import types
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from prompts.bench.bfcl import CATEGORIES, need_of, read
from prompts.bench.cases import Call, Case
from prompts.bench.scoring import check
from tests.prompts.bench.mutations import mutations

Judge = Callable[[Case, Sequence[Call]], bool]
SHOWN = 40


def checker_in(unpacked: Path) -> Judge:
    """BFCL's own judge of a case; an exception in it is raised."""
    sys.path.insert(0, str(unpacked))
    stub: Any = types.ModuleType("bfcl_eval.constants.model_config")
    stub.MODEL_CONFIG_MAPPING = {"any": types.SimpleNamespace(underscore_to_dot=False)}
    sys.modules[stub.__name__] = stub
    checker = importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker")
    language = importlib.import_module("bfcl_eval.constants.enums").Language

    def judge(case: Case, calls: Sequence[Call]) -> bool:
        functions = [{"name": name, "parameters": one} for name, one in case.types.items()]
        output = [{call.name: call.arguments} for call in calls]
        truth = [{one.name: one.accepted} for one in case.expected]
        spoken = language[case.language.upper()]
        judged = checker.ast_checker(functions, output, truth, spoken, case.category, "any")
        return bool(judged["valid"])

    return judge


def main(archive: Path, unpacked: Path, seed: int = 1) -> None:
    judge, draw = checker_in(unpacked), random.Random(seed)
    counts: Counter[tuple[str, str]] = Counter()
    shown = 0
    for case in read(archive, [one for one in CATEGORIES if need_of(one) == "calls"]):
        for kind, calls in mutations(case, draw):
            mine = check(case, calls)
            try:
                theirs = "right" if judge(case, calls) else "wrong"
            except Exception as exc:  # of a kind that depends on where it stumbles
                theirs = f"fails ({type(exc).__name__})"
            verdict = f"{'wrong' if mine else 'right'} by us, {theirs} by BFCL"
            counts[kind, verdict] += 1
            if theirs != ("wrong" if mine else "right") and shown < SHOWN:
                shown += 1
                print(case.id, kind, verdict, mine, calls, case.expected, sep="\n   ")
    for (kind, verdict), count in sorted(counts.items()):
        print(f"{kind:<20}{verdict:<40}{count:>7}")
    same = sum(
        count for (_, verdict), count in counts.items()
        if verdict in ("right by us, right by BFCL", "wrong by us, wrong by BFCL")
    )  # fmt: skip
    print(f"{same} of {counts.total()} the same ({same / counts.total():.3%})")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
