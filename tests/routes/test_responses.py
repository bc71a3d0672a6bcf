"""`/v1/responses` over HTTP, without weights: the whole line, the store, errors."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.responses.helpers import RESPONSES, answer_to, ask, body, flat_tool, read_stream
from tests.serving import CHAT, CITY, MODEL, call, rig, started, tool
from tests.test_app import error_of

PORTO = call("get_weather", '{"city": "Porto"}')
SAYS = {"hello": "Hi.", "weather": PORTO, "21 degrees": "It is warm."}
TOOLS = [flat_tool("get_weather")]
PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True])


def result(call_id: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "21 degrees"}


# Answers


@PLAIN_AND_STREAMED
async def test_a_text(stream: bool) -> None:
    response = await answer_to(SAYS, "hello", stream=stream)
    [item] = response["output"]
    assert item["content"][0]["text"] == "Hi."
    assert response["status"] == "completed"
    assert response["model"] == MODEL


@PLAIN_AND_STREAMED
async def test_a_call_as_in_chat(stream: bool) -> None:
    async with started(rig(SAYS)) as client:
        response = await ask(client, "weather", tools=TOOLS, stream=stream)
        chat = await client.post(
            CHAT,
            json={
                "model": MODEL,
                "messages": [{"role": "user", "content": "weather"}],
                "tools": [tool("get_weather")],
            },
        )
    [item] = response["output"]
    assert (item["type"], item["name"]) == ("function_call", "get_weather")
    assert json.loads(item["arguments"]) == {"city": "Porto"}
    [message] = [choice["message"] for choice in chat.json()["choices"]]
    assert message["tool_calls"][0]["function"]["arguments"] == item["arguments"]
    usage = chat.json()["usage"]
    assert usage["prompt_tokens"] == response["usage"]["input_tokens"]
    assert usage["completion_tokens"] == response["usage"]["output_tokens"]


@PLAIN_AND_STREAMED
async def test_text_and_then_calls(stream: bool) -> None:
    says = {"both": "Let me look. " + PORTO + "\n" + call("get_weather", '{"city": "Faro"}')}
    response = await answer_to(says, "both", tools=TOOLS, stream=stream)
    assert [item["type"] for item in response["output"]] == [
        "message", "function_call", "function_call",
    ]  # fmt: skip
    response = await answer_to(says, "both", tools=TOOLS, stream=stream, parallel_tool_calls=False)
    assert [item["type"] for item in response["output"]] == ["message", "function_call"]


@PLAIN_AND_STREAMED
@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("none", []),
        ("required", ["get_weather"]),
        ({"type": "function", "name": "get_time"}, ["get_time"]),
        ({"type": "allowed_tools", "mode": "required",
          "tools": [{"type": "function", "name": "get_time"}]}, ["get_time"]),
    ],
)  # fmt: skip
async def test_a_choice_of_tools_is_obeyed(stream: bool, choice: Any, names: list[str]) -> None:
    tools = [*TOOLS, flat_tool("get_time")]
    response = await answer_to(SAYS, "weather", tools=tools, tool_choice=choice, stream=stream)
    called = [item["name"] for item in response["output"] if item["type"] == "function_call"]
    assert called == names
    assert response["tool_choice"] == choice


@PLAIN_AND_STREAMED
async def test_a_custom_tool_is_called_with_a_text(stream: bool) -> None:
    says = {"count": call("sql", '{"input": "SELECT 1"}')}
    sql = {"type": "custom", "name": "sql", "description": "Runs SQL."}
    response = await answer_to(says, "count", tools=[sql], tool_choice="required", stream=stream)
    [item] = response["output"]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "sql", "SELECT 1")


@PLAIN_AND_STREAMED
async def test_json_of_a_schema(stream: bool) -> None:
    form = {"format": {"type": "json_schema", "name": "city", "schema": CITY, "strict": True}}
    response = await answer_to({"where": '{"city": "Faro"}'}, "where", text=form, stream=stream)
    assert json.loads(response["output"][0]["content"][0]["text"]) == {"city": "Faro"}
    assert response["text"]["format"]["schema"] == CITY


@PLAIN_AND_STREAMED
async def test_log_probabilities_of_the_text(stream: bool) -> None:
    include = ["message.output_text.logprobs"]
    response = await answer_to(SAYS, "hello", include=include, top_logprobs=2, stream=stream)
    entries = response["output"][0]["content"][0]["logprobs"]
    assert "".join(entry["token"] for entry in entries) == "Hi."
    assert {len(entry["top_logprobs"]) for entry in entries} == {2}


@PLAIN_AND_STREAMED
async def test_reasoning_comes_first_and_goes_back(stream: bool) -> None:
    thoughts = "<think>\nThe weather… of a city.\n</think>\n\n"
    says = {"weather": thoughts + PORTO, "21 degrees": thoughts + "It is warm."}
    thinking: Any = {
        "chat_template_kwargs": {"thinking": True},
        "include": ["reasoning.encrypted_content"],
        "tools": TOOLS,
        "stream": stream,
    }
    async with started(rig(says)) as client:
        first = await ask(client, "weather", **thinking)
        thought, made = first["output"]
        answered = result(made["call_id"])
        kept = await ask(client, [answered], previous_response_id=first["id"], **thinking)
        # As clients do that keep the opaque text only.
        sealed = {name: thought[name] for name in ("id", "type", "summary", "encrypted_content")}
        question = {"role": "user", "content": "weather"}
        sent = await ask(client, [question, sealed, made, answered], store=False, **thinking)
    assert (thought["type"], made["type"]) == ("reasoning", "function_call")
    assert thought["content"][0]["text"].strip() == "The weather… of a city."
    assert first["usage"]["output_tokens_details"]["reasoning_tokens"] > 0
    for response in (kept, sent):
        assert response["output"][-1]["content"][0]["text"] == "It is warm."
    assert sent["usage"]["input_tokens"] == kept["usage"]["input_tokens"]


@PLAIN_AND_STREAMED
async def test_a_limit_of_tokens_makes_it_incomplete(stream: bool) -> None:
    response = await answer_to(SAYS, "hello", max_output_tokens=2, stream=stream)
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["content"][0]["text"] == "Hi"
    response = await answer_to(
        SAYS, "weather", max_output_tokens=40, tools=TOOLS, tool_choice="required", stream=stream
    )
    [item] = response["output"]
    assert (item["type"], item["status"]) == ("function_call", "incomplete")


async def test_what_was_asked_for_is_echoed() -> None:
    asked: dict[str, Any] = {
        "instructions": "Be brief.",
        "metadata": {"a": "b"},
        "temperature": 0.5,
        "top_p": 0.9,
        "max_output_tokens": 50,
        "parallel_tool_calls": False,
        "tools": [{**TOOLS[0], "description": "Weather.", "strict": False}],
        "tool_choice": "auto",
        "truncation": "disabled",
        "store": False,
    }
    response = await answer_to(SAYS, "hello", **asked, reasoning={"effort": "low"})
    assert {name: response[name] for name in asked} == asked
    assert response["reasoning"] == {"effort": "low", "summary": None}
    assert response["id"].startswith("resp_")


async def test_the_document_describes_the_stream() -> None:
    made = rig(SAYS)
    document = made.app.openapi()
    described = document["paths"][RESPONSES]["post"]["responses"]["200"]["content"]
    assert "[DONE]" not in json.dumps(described)
    assert "StreamEvent" in json.dumps(described["text/event-stream"])
    event = Draft202012Validator(
        {"$ref": "#/components/schemas/StreamEvent", "components": document["components"]}
    )
    async with started(made) as client:
        answer = await client.post(RESPONSES, json=body("weather", tools=TOOLS, stream=True))
    for one in read_stream(answer.text):
        event.validate(one)


# Going on


@PLAIN_AND_STREAMED
async def test_going_on_is_the_same_as_sending_everything(stream: bool) -> None:
    async with started(rig(SAYS)) as client:
        first = await ask(client, "weather", tools=TOOLS, stream=stream)
        [made] = first["output"]
        after = {"tools": TOOLS, "stream": stream}
        answered = result(made["call_id"])
        kept = await ask(client, [answered], previous_response_id=first["id"], **after)
        question = {"role": "user", "content": "weather"}
        sent = await ask(client, [question, made, answered], store=False, **after)
        by_reference = {"type": "item_reference", "id": made["id"]}
        named = await ask(client, [question, by_reference, answered], **after)
        third = await ask(client, "hello", previous_response_id=kept["id"], **after)
    for response in (kept, sent, named):
        assert response["output"][0]["content"][0]["text"] == "It is warm."
        assert response["usage"]["input_tokens"] == kept["usage"]["input_tokens"]
    assert kept["previous_response_id"] == first["id"]
    assert third["usage"]["input_tokens"] > first["usage"]["input_tokens"]


async def test_instructions_hold_for_one_response_only() -> None:
    async with started(rig(SAYS)) as client:
        first = await ask(client, "hello", instructions="A" * 100)
        second = await ask(client, "hello", previous_response_id=first["id"])
    assert second["instructions"] is None
    assert second["usage"]["input_tokens"] < first["usage"]["input_tokens"]


async def test_a_response_can_be_shown_listed_and_deleted() -> None:
    async with started(rig(SAYS)) as client:
        first = await ask(client, [{"role": "user", "content": "weather"}], tools=TOOLS)
        path = f"{RESPONSES}/{first['id']}"
        shown = await client.get(path)
        listed = await client.get(f"{path}/input_items")
        deleted = await client.delete(path)
        gone = [
            await client.get(path),
            await client.delete(path),
            await client.get(f"{path}/input_items"),
            await client.post(f"{path}/cancel"),
            await client.post(RESPONSES, json=body("hello", previous_response_id=first["id"])),
        ]
    assert shown.json() == first
    [item] = listed.json()["data"]
    assert item["content"] == [{"type": "input_text", "text": "weather"}]
    assert (listed.json()["object"], listed.json()["has_more"]) == ("list", False)
    assert deleted.json() == {"id": first["id"], "object": "response", "deleted": True}
    for answer in gone:
        assert answer.status_code == 404
        assert first["id"] in error_of(answer)["message"]
    assert error_of(gone[-1])["param"] == "previous_response_id"
    assert error_of(gone[-1])["code"] == "previous_response_not_found"


async def test_the_input_is_listed_in_pages() -> None:
    given = [{"role": "user", "content": f"hello {n}"} for n in range(5)]
    async with started(rig(SAYS)) as client:
        made = await ask(client, given)
        path = f"{RESPONSES}/{made['id']}/input_items"

        async def page(**query: Any) -> dict[str, Any]:
            answer = await client.get(path, params=query)
            assert answer.status_code == 200, answer.text
            page: dict[str, Any] = answer.json()
            return page

        latest = await page()
        first = await page(order="asc", limit=2)
        second = await page(order="asc", limit=2, after=first["last_id"])
        third = await page(order="asc", limit=2, after=second["last_id"])
        beyond = await page(order="asc", after=third["last_id"])
        refused = [
            await client.get(path, params=query)
            for query in ({"limit": 0}, {"limit": "0001000"}, {"limit": "x"}, {"order": "up"},
                          {"after": "msg_x"}, {"include[]": "message.input_image.image_url"})
        ]  # fmt: skip
    pages = [*first["data"], *second["data"], *third["data"]]
    assert [item["content"][0]["text"] for item in pages] == [f"hello {n}" for n in range(5)]
    assert latest["data"] == pages[::-1]
    assert [one["has_more"] for one in (first, second, third)] == [True, True, False]
    assert (beyond["data"], beyond["first_id"], beyond["last_id"]) == ([], None, None)
    assert {answer.status_code for answer in refused} == {400}
    params = [error_of(answer)["param"] for answer in refused]
    assert params == ["limit", "limit", "limit", "order", "after", "include[]"]


async def test_what_is_not_to_be_kept_is_not() -> None:
    async with started(rig(SAYS)) as client:
        made = await ask(client, "hello", store=False)
        assert made["store"] is False
        assert (await client.get(f"{RESPONSES}/{made['id']}")).status_code == 404


async def test_a_kept_response_is_not_streamed_again_and_not_cancelled() -> None:
    async with started(rig(SAYS)) as client:
        made = await ask(client, "hello")
        path = f"{RESPONSES}/{made['id']}"
        again = await client.get(path, params={"stream": "true"})
        plain = await client.get(path, params={"stream": "false"})
        cancelled = await client.post(f"{path}/cancel")
    assert (again.status_code, error_of(again)["param"]) == (400, "stream")
    assert plain.status_code == 200
    assert cancelled.status_code == 400
    assert "background" in error_of(cancelled)["message"]


async def test_what_one_key_made_no_other_sees() -> None:
    made = rig(SAYS, api_key=("sk-one", "sk-two"))
    one, two = {"authorization": "Bearer sk-one"}, {"x-api-key": "sk-two"}
    async with started(made) as client:
        answer = await client.post(RESPONSES, json=body("hello"), headers=one)
        path = f"{RESPONSES}/{answer.json()['id']}"
        item = answer.json()["output"][0]["id"]
        for method in ("GET", "DELETE"):
            assert (await client.request(method, path, headers=two)).status_code == 404
        on = body("hello", previous_response_id=answer.json()["id"])
        assert (await client.post(RESPONSES, json=on, headers=two)).status_code == 404
        named = body([{"id": item}, {"role": "user", "content": "hello"}])
        assert (await client.post(RESPONSES, json=named, headers=two)).status_code == 404
        assert (await client.post(RESPONSES, json=named, headers=one)).status_code == 200
        same = {"x-api-key": "sk-one"}
        assert (await client.get(path, headers=same)).json() == answer.json()
        assert (await client.post(RESPONSES, json=body("hello"))).status_code == 401
        assert (await client.get(path)).status_code == 401


async def test_responses_survive_a_restart_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    async with started(rig(SAYS, responses_store=str(path))) as client:
        first = await ask(client, "weather", tools=TOOLS)
    async with started(rig(SAYS, responses_store=str(path))) as client:
        again = result(first["output"][0]["call_id"])
        second = await ask(client, [again], previous_response_id=first["id"])
        assert (await client.get(f"{RESPONSES}/{first['id']}")).json() == first
    assert second["output"][0]["content"][0]["text"] == "It is warm."
    assert b"sk-" not in path.read_bytes()


async def test_many_go_on_at_once() -> None:
    async with started(rig(SAYS)) as client:
        first = await ask(client, "hello")
        branches = await asyncio.gather(
            *(ask(client, "hello", previous_response_id=first["id"]) for _ in range(8))
        )
        assert len({one["id"] for one in branches}) == 8
        for one in branches:
            assert (await client.get(f"{RESPONSES}/{one['id']}")).json() == one
