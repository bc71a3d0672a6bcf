"""From a client's JSON Schema to what the grammar can enforce, and what is left to check.

Three things may happen to a keyword: it is enforced while decoding; it is checked on the finished
value, with another try if it fails; or the schema is refused by pointer and keyword. Nothing is
dropped in silence. The dialect is draft 2020-12; older drafts are put into its words first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from server.schema.checker import Checker
from server.schema.definitions import check_depth, without_endless
from server.schema.dialect import modern
from server.schema.enforcement import HANDLERS
from server.schema.keywords import JsonObject, Refusal, check_shape, nodes
from server.schema.listing import TooLarge
from server.schema.loosening import Verdict, loosen
from server.schema.reduction import MAX_NODES, Reducer
from server.schema.references import References
from server.schema.shortest import check_shortest
from server.schema.words import check_patterns


@dataclass(frozen=True)
class Prepared:
    """`grammar` is the schema for the back end.

    `afterwards` are the pointers and keywords that it does not enforce; `loose_keys`: nor that the
    members of an object have different names. `checker` enforces all. `pointers` say of nodes of
    the grammar, by identity, where they come from.
    """

    grammar: JsonObject
    afterwards: tuple[tuple[str, str], ...]
    loose_keys: bool
    checker: Checker
    pointers: Mapping[int, str]

    @property
    def says_less(self) -> bool:
        """Whether the grammar lets something through that the checker does not."""
        return bool(self.afterwards) or self.loose_keys

    def loosened(self, verdict: Verdict) -> Prepared:
        """Without what the back end turns out not to take. Raises Refusal."""
        found = loosen(self.grammar, self.pointers, verdict)
        return replace(
            self, grammar=found.grammar, afterwards=(*self.afterwards, *found.afterwards)
        )


def prepare(schema: JsonObject, *, arguments: bool) -> Prepared:
    """Make a client's schema ready for the back end. Raises Refusal.

    `arguments`: it describes the arguments of a tool, whose object is empty if nothing is listed.
    """
    try:
        schema = modern(schema)
        if sum(1 for _ in nodes(schema)) > MAX_NODES:
            raise Refusal("", "schema", f"it has more than {MAX_NODES} parts")
        check_shape(schema)
        check_patterns(schema)
        references = References(schema)
        reducer = Reducer(references, HANDLERS)
        grammar = without_endless(reducer.reduce(schema, arguments=arguments))
        check_depth(grammar)
        check_shortest(grammar)
    except RecursionError:
        raise Refusal("", "schema", "it is nested too deeply") from None
    except TooLarge:
        raise Refusal("", "schema", "too many of its parts speak of the same value") from None
    return Prepared(
        grammar,
        tuple(reducer.afterwards),
        reducer.loose_keys,
        Checker(schema, references.registry),
        reducer.pointers,
    )
