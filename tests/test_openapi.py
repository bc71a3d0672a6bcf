"""The OpenAPI document is true: its examples are taken, and its schemas describe the answers."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from server.wire.chat import ChatRequest
from server.wire.completions import CompletionRequest
from tests.fakes import OPENING
from tests.serving import CHAT, MODEL, parse_stream, rig, started
from tests.test_app import error_of

# What the scripted model says to the questions of the examples, whatever a constraint makes of it.
SAYS = {
    "hello": "Hello!",
    "Porto": '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Porto"}}\n</tool_call>',
    "sunny": "It is sunny.",
    OPENING: "more",
}


def described(**values: Any) -> dict[str, Any]:
    document: dict[str, Any] = rig({}, **values).app.openapi()
    return document


DOCUMENT = described()
EXAMPLES = [
    pytest.param(path, example["value"], id=f"{path} {name}")
    for path, item in DOCUMENT["paths"].items()
    for operation in item.values()
    for content in operation.get("requestBody", {}).get("content", {}).values()
    for name, example in content.get("examples", {}).items()
]


def schema(node: dict[str, Any]) -> Draft202012Validator:
    """A validator of a schema in the document, whose references are the document's."""
    return Draft202012Validator({**node, "components": DOCUMENT["components"]})


def answer_schema(path: str) -> dict[str, Any]:
    (operation,) = DOCUMENT["paths"][path].values()
    found: dict[str, Any] = operation["responses"]["200"]["content"]["application/json"]["schema"]
    return found


def event_schema(path: str) -> dict[str, Any]:
    content = DOCUMENT["paths"][path]["post"]["responses"]["200"]["content"]
    found: dict[str, Any] = content["text/event-stream"]["itemSchema"]
    return found


def raw(example: dict[str, Any]) -> dict[str, Any]:
    """An example whose raw prompts end as the scripted model wants them to."""
    prompt = example.get("prompt")
    if prompt is None:
        return example
    ended = prompt + OPENING if isinstance(prompt, str) else [one + OPENING for one in prompt]
    return {**example, "prompt": ended}


def test_every_reference_leads_somewhere() -> None:
    text = json.dumps(DOCUMENT)
    for reference in {part.split('"')[0] for part in text.split('"$ref": "')[1:]}:
        node = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            node = node[step]
        assert node


def test_every_schema_is_one() -> None:
    for one in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(one)


def test_every_route_is_there_and_none_that_is_not() -> None:
    assert {CHAT, "/v1/completions", "/v1/models", "/v1/models/{name}", "/tokenize"} <= set(
        DOCUMENT["paths"]
    )
    assert {"/detokenize", "/health", "/metrics"} <= set(DOCUMENT["paths"])


@pytest.mark.parametrize("model", [ChatRequest, CompletionRequest])
def test_what_is_documented_is_what_is_read(model: Any) -> None:
    names = {info.alias or name for name, info in model.model_fields.items()}
    assert set(DOCUMENT["components"]["schemas"][model.__name__]["properties"]) == names


def test_the_models_are_the_served_ones() -> None:
    names = described(alias=("gpt-4o",))["components"]["schemas"]["ChatRequest"]["properties"]
    assert names["model"]["enum"] == [MODEL, "gpt-4o"]


@pytest.mark.parametrize("keys", [(), ("sk-one",)])
def test_a_key_is_asked_for_where_there_is_one(keys: tuple[str, ...]) -> None:
    paths = described(api_key=keys)["paths"]
    assert bool(paths[CHAT]["post"].get("security")) == bool(keys)
    assert "security" not in paths["/health"]["get"]


@pytest.mark.parametrize(("path", "example"), EXAMPLES)
async def test_an_example_is_taken_and_answered_as_described(path: str, example: Any) -> None:
    body_schema = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]
    schema(body_schema["schema"]).validate(example)
    async with started(rig(SAYS)) as client:
        answer = await client.post(path, json=raw(example))
    assert answer.status_code == 200, answer.text
    if not example.get("stream"):
        schema(answer_schema(path)).validate(answer.json())
        return
    *chunks, done = parse_stream(answer.text)
    assert done.data == "[DONE]"
    data = event_schema(path)["properties"]["data"]["anyOf"][1]
    for one in chunks:
        schema(data["contentSchema"]).validate(one.data)


@pytest.mark.parametrize("path", ["/health", "/v1/models", f"/v1/models/{MODEL}"])
async def test_what_can_be_read_is_as_described(path: str) -> None:
    async with started(rig({})) as client:
        answer = await client.get(path)
    schema(answer_schema(path.replace(MODEL, "{name}"))).validate(answer.json())


async def test_errors_are_as_described() -> None:
    async with started(rig({}, api_key=("sk-one",))) as client:
        answers: list[httpx.Response] = [
            await client.post(CHAT, json={}),
            await client.post(CHAT, json={}, headers={"authorization": "Bearer sk-one"}),
            await client.get("/v1/models/x", headers={"authorization": "Bearer sk-one"}),
        ]
    responses = DOCUMENT["paths"][CHAT]["post"]["responses"]
    for answer in answers:
        assert str(answer.status_code) in responses
        error_of(answer)
        schema({"$ref": "#/components/schemas/ErrorReply"}).validate(answer.json())


async def test_the_document_and_a_page_for_it_are_served() -> None:
    async with started(rig({})) as client:
        assert (await client.get("/openapi.json")).json() == DOCUMENT
        assert (await client.get("/docs")).status_code == 200


async def test_the_page_of_the_document_needs_no_network() -> None:
    async with started(rig({}, api_key=("sk-one",))) as client:
        page = (await client.get("/docs")).text
        links = re.findall(r"""(?:src|href)=["']([^"']*)["']""", page)
        assert any(link.endswith(".js") for link in links)
        assert any(link.endswith(".css") for link in links)
        assert not re.search("https?://", page)
        for link in [*links, "/openapi.json"]:
            assert (await client.get(link)).status_code == 200, link
