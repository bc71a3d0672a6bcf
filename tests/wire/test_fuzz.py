"""Whatever a client sends costs it at most an error that says what is wrong."""

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from server.errors import InvalidRequest, TooLarge
from server.wire.chat import ChatRequest, parse_chat_request
from server.wire.history import to_conversation
from server.wire.replies import error_reply, to_json
from tests.wire.builders import LIMITS

QUICKLY = settings(deadline=2000)  # milliseconds for one request, on a busy machine

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
    | st.sampled_from(["function", "text", "json_schema", "auto", "required", "custom", "object"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def maybe(draw: st.DrawFn, strategy: st.SearchStrategy[Any]) -> Any:
    """Mostly what belongs there, now and then anything at all."""
    return draw(anything if draw(st.integers(0, 40)) == 7 else strategy)


def loose(required: dict[str, Any] | None = None, /, **optional: Any) -> st.SearchStrategy[Any]:
    return maybe(st.fixed_dictionaries(required or {}, optional=optional))


ids = maybe(st.sampled_from(["", "a", "b", "c"]))
names = maybe(st.sampled_from(["look", "take", "stock.count"]))
part = loose({"type": maybe(st.sampled_from(["text", "refusal", "image_url"]))}, text=st.text())
content = maybe(st.none() | st.text(max_size=9) | st.lists(part, max_size=3))
arguments = maybe(st.sampled_from(["", "{}", '{"a": 1}', '{"a', "null", "[1]", '{"a": NaN}']))
function = loose({"name": names}, arguments=arguments)
past_call = loose({"function": function}, id=ids, type=maybe(st.just("function")))
message = loose(
    {"role": maybe(st.sampled_from(["system", "developer", "user", "assistant", "tool"]))},
    content=content,
    tool_calls=maybe(st.lists(past_call, max_size=3)),
    function_call=function,
    tool_call_id=ids,
    name=names,
    reasoning=anything,
)
turn = loose({"role": st.just("assistant"), "tool_calls": st.lists(past_call, max_size=3)}) | loose(
    {"role": st.sampled_from(["tool", "function"])}, tool_call_id=ids, content=content
)
schema = st.recursive(
    loose(type=maybe(st.sampled_from(["object", "string", ["string", "null"]])), enum=anything),
    lambda inner: loose(
        type=maybe(st.just("object")),
        properties=maybe(st.dictionaries(st.text(max_size=4), inner, max_size=3)),
        items=inner,
        anyOf=maybe(st.lists(inner, max_size=2)),
        definitions=maybe(st.dictionaries(st.text(max_size=4), inner, max_size=2)),
    ),
    max_leaves=4,
)
tool = loose(
    {"function": loose({"name": names}, parameters=schema, description=maybe(st.text()))},
    type=maybe(st.just("function")),
)
choice = maybe(
    st.sampled_from(["none", "auto", "required"])
    | loose({"type": st.just("function")}, function=loose(name=names), name=names)
    | loose({"type": st.just("allowed_tools")}, mode=st.just("auto"), tools=st.lists(tool))
)
answer_format = loose(
    {"type": maybe(st.sampled_from(["text", "json_object", "json_schema"]))},
    json_schema=loose(name=names, schema=schema),
    schema=schema,
)
body = loose(
    {"model": maybe(st.just("m")), "messages": maybe(st.lists(message | turn, max_size=5))},
    tools=maybe(st.lists(tool, max_size=3)),
    tool_choice=choice,
    response_format=answer_format,
    stop=maybe(st.lists(st.text(max_size=3))),
    logit_bias=maybe(st.dictionaries(st.integers().map(str), st.floats(), max_size=2)),
    temperature=maybe(st.floats()),
    seed=anything,
    stream_options=anything,
    chat_template_kwargs=anything,
    functions=maybe(st.lists(loose({"name": names}, parameters=schema), max_size=2)),
    function_call=maybe(st.sampled_from(["none", "auto"]) | loose(name=names)),
    n=maybe(st.integers(1, 8)),
    logprobs=maybe(st.booleans()),
    top_logprobs=maybe(st.just(0)),
    guided_json=anything,
    structured_outputs=loose(json=schema, json_object=maybe(st.booleans())),
    stop_token_ids=maybe(st.lists(st.integers(0, 9), max_size=2)),
    min_tokens=maybe(st.just(0)),
    continue_final_message=maybe(st.none()),
    verbosity=maybe(st.sampled_from(["low", "medium", "high"])),
)


def check(raw: bytes) -> ChatRequest | None:
    try:
        request = parse_chat_request(raw, LIMITS)
        conversation = to_conversation(request)
    except (InvalidRequest, TooLarge) as exc:
        error = json.loads(to_json(error_reply(exc)))["error"]
        assert 0 < len(error["message"]) < 2000
        assert len(error["param"] or "") < 1000
        return None
    assert len(conversation.messages) >= len(request.messages)
    texts = [(one.content, one.reasoning, one.calls) for one in conversation.messages]
    assert repr((texts, conversation.tools)).encode()
    return request


@QUICKLY
@given(st.binary(max_size=200))
@example(b'{"model":"m","messages":[{"role":"user"}],"seed":' + b"9" * 4000 + b"}")
@example(b"[" * 50_000)
def test_any_bytes(raw: bytes) -> None:
    check(raw)


@QUICKLY
@given(anything)
def test_any_json(value: Any) -> None:
    check(json.dumps(value).encode())


@QUICKLY
@given(body)
def test_anything_like_a_request(value: Any) -> None:
    check(json.dumps(value).encode())


def test_the_fuzzer_reaches_requests_that_are_taken() -> None:
    taken = []

    @settings(QUICKLY, derandomize=True, database=None)
    @given(body)
    def collect(value: Any) -> None:
        taken.append(check(json.dumps(value).encode()) is not None)

    collect()
    assert sum(taken) >= 5
