"""The page on keywords, made from what the constraint does with examples.

`python -m tests.schema.keyword_table` writes it (`make keywords`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

from prompts.conversation import PastCall
from prompts.formats import HERMES, render_calls
from server.constraint import ConstraintCompiler
from server.errors import InvalidRequest
from server.plan import Callee, Plan
from tests.driving import verdict
from tests.fakes import byte_vocabulary

PAGE = Path(__file__).parents[2] / "server" / "schema" / "KEYWORDS.md"
DECODING = "while decoding"
AFTERWARDS = "afterwards"
REFUSED = "refused"
ANNOTATION = "annotation"
META_SCHEMA = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True)
class Example:
    """A schema with `keyword`, for the parameter `v` of a tool; `when` says what it stands for.

    `valid` may be written. `invalid` breaks the keyword; for an annotation, it would if the keyword
    said anything of a value. A schema that is refused has neither.
    """

    keyword: str
    schema: dict[str, Any]
    valid: Any = None
    invalid: Any = None
    when: str = ""


def examples() -> tuple[Example, ...]:
    lines = (Path(__file__).parent / "keywords.jsonl").read_text("utf-8").splitlines()
    return tuple(Example(**json.loads(line)) for line in lines)


def all_keywords() -> frozenset[str]:
    """Every keyword that the meta-schemas of draft 2020-12 describe."""
    main = REGISTRY.contents(META_SCHEMA)
    parts = [REGISTRY.resolver(META_SCHEMA).lookup(p["$ref"]).contents for p in main["allOf"]]
    return frozenset(key for part in [main, *parts] for key in part["properties"])


def enforcement(compiler: ConstraintCompiler, example: Example) -> str:
    """How the keyword of an example is enforced. Raises ValueError for an example that is none."""
    text = {"type": "string"}
    schema = {
        "type": "object",
        "properties": {"v": example.schema},
        "required": ["v"],
        "$defs": {"t": text},
        "definitions": {"t": text},
    }
    plan = Plan(HERMES, "required", (Callee("tool", schema, "here"),), parallel=False)
    try:
        constraint = compiler.compile_now(plan)
    except InvalidRequest as exc:
        if f"'{example.keyword}'" not in exc.message or example.invalid is not None:
            raise ValueError(f"{example}: {exc.message}") from None
        return REFUSED

    def found(value: Any) -> str:
        said = render_calls(HERMES, [PastCall("", "tool", {"v": value})])
        return verdict(constraint, byte_vocabulary(), said)

    if found(example.valid) != "accepted":
        raise ValueError(f"the valid value cannot be written: {example}")
    kinds = {"accepted": ANNOTATION, "grammar": DECODING, "check": AFTERWARDS}
    return kinds[found(example.invalid)]


HEAD = """\
# Keywords of JSON Schema

Made by `make keywords` from examples (`tests/schema/keywords.jsonl`) that are run through the
constraint; do not edit. The dialect is draft 2020-12; older drafts are put into its words.

- *while decoding*: no token that breaks it can be chosen.
- *afterwards*: the finished value is checked. On a violation tokens are taken back and generated
  anew, a bounded number of times; then the request fails.
- *refused*: a 400 that names tool, place and keyword.
- *annotation*: it says nothing of a value; the model sees it.

What is too large or too entangled for the grammar is checked afterwards too.

| keyword | enforced | where |
|---|---|---|
"""

LIMITS = """
## Valid values that are never written

- Members come in the order in which the schema lists them; those that it does not list come last.
- An object whose members are listed has no others, unless the schema speaks of them.
- White space is fixed. A whole number has no fraction and no exponent, no number more than 24
  digits in a row. Integers stay within 2^63 - 1024, bounds of other numbers within 10^15.
- `enum` and `const` are written as in the schema, members in its order.
- A known `format` is enforced, not only noted; dates exist, times have no leap second.
- `pattern` is read as ECMA-262 in Unicode mode, and may match anywhere in the text.
- A schema has at most 50,000 parts, an object 2,000 members, a pattern 20,000 characters.
"""


def page(compiler: ConstraintCompiler) -> str:
    rows = (
        f"| `{each.keyword}` | {enforcement(compiler, each)} | {each.when} |\n"
        for each in examples()
    )
    return HEAD + "".join(rows) + LIMITS


def main() -> None:
    PAGE.write_text(page(ConstraintCompiler(byte_vocabulary(), can_retry=True)), "utf-8")


if __name__ == "__main__":
    main()
