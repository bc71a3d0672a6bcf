"""langchain-openai by itself, and an agent of LangChain, which is a graph of LangGraph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from tests.clients.conftest import Served
from tests.clients.weather import (
    DESCRIPTION,
    FORECAST_TEXT,
    NAME,
    QUESTION,
    TIMEOUT_S,
    Forecast,
    Weather,
)

PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True])


@pytest.fixture
def model(served: Served) -> ChatOpenAI:
    return ChatOpenAI(
        model=served.model,
        base_url=served.base_url,
        api_key="none",
        temperature=0,
        timeout=TIMEOUT_S,
        max_retries=0,
        max_tokens=100,
    )


@pytest.fixture
def tool(weather: Weather) -> StructuredTool:
    return StructuredTool.from_function(weather.answer, name=NAME, description=DESCRIPTION)


def check_call(message: AIMessage) -> Any:
    [call] = message.tool_calls
    assert call["name"] == NAME
    assert call["id"]
    assert not message.invalid_tool_calls
    assert message.response_metadata["finish_reason"] == "tool_calls"
    return call


@PLAIN_AND_STREAMED
def test_the_loop(model: ChatOpenAI, tool: StructuredTool, weather: Weather, stream: bool) -> None:
    def ask(messages: list[Any], tool_choice: str) -> AIMessage:
        bound = model.bind_tools([tool], tool_choice=tool_choice)
        if not stream:
            return bound.invoke(messages)
        whole = AIMessageChunk(content="")
        for chunk in bound.stream(messages):
            whole += chunk
        return whole

    called = ask([HumanMessage(QUESTION)], NAME)
    result = tool.invoke(check_call(called))
    assert isinstance(result, ToolMessage)
    last = ask([HumanMessage(QUESTION), called, result], "none")
    assert not last.tool_calls
    weather.check(last.text)


async def test_the_loop_without_blocking(
    model: ChatOpenAI, tool: StructuredTool, weather: Weather
) -> None:
    called = await model.bind_tools([tool], tool_choice="required").ainvoke(QUESTION)
    history = [HumanMessage(QUESTION), called, tool.invoke(check_call(called))]
    deltas = [chunk.text async for chunk in model.astream(history)]
    weather.check("".join(deltas))


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
@pytest.mark.parametrize("strict", [None, True])
def test_structured_output(
    model: ChatOpenAI, method: Literal["json_schema", "function_calling"], strict: bool | None
) -> None:
    structured = model.with_structured_output(
        Forecast, method=method, strict=strict, include_raw=True
    )
    answer = structured.invoke(FORECAST_TEXT)
    assert isinstance(answer, dict)
    assert answer["parsing_error"] is None
    assert isinstance(answer["parsed"], Forecast)


def test_structured_output_comes_in_growing_pieces(model: ChatOpenAI) -> None:
    pieces = list(model.with_structured_output(Forecast.model_json_schema()).stream(FORECAST_TEXT))
    assert len(pieces) > 1
    Forecast.model_validate(pieces[-1])


class CallThenAnswer(AgentMiddleware[Any, Any, Any]):
    """The first turn must call a tool, later ones cannot."""

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        first = not any(isinstance(message, ToolMessage) for message in request.messages)
        return handler(request.override(tool_choice="required" if first else "none"))


@PLAIN_AND_STREAMED
def test_an_agent(model: ChatOpenAI, tool: StructuredTool, weather: Weather, stream: bool) -> None:
    agent = create_agent(model, [tool], system_prompt="Be brief.", middleware=[CallThenAnswer()])
    asked: Any = {"messages": [HumanMessage(QUESTION)]}
    if stream:
        deltas = [
            message.text
            for message, _ in agent.stream(asked, stream_mode="messages")
            if isinstance(message, AIMessageChunk)
        ]
        weather.check("".join(deltas))
        return
    _, called, result, last = agent.invoke(asked)["messages"]
    assert check_call(called)["id"] == result.tool_call_id
    weather.check(last.text)


def test_a_graph_made_by_hand(model: ChatOpenAI, tool: StructuredTool, weather: Weather) -> None:
    def think(state: MessagesState) -> Any:
        choice = "none" if isinstance(state["messages"][-1], ToolMessage) else "required"
        bound = model.bind_tools([tool], tool_choice=choice, parallel_tool_calls=False)
        return {"messages": [bound.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode([tool]))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition, ["tools", END])
    graph.add_edge("tools", "think")
    *_, last = graph.compile().invoke({"messages": [HumanMessage(QUESTION)]})["messages"]
    weather.check(last.text)
