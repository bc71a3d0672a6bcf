"""The workloads: which requests are made, as pure functions of a seed.

Every server is asked the same in the same order. Texts differ between all requests of a run, so
that no answer comes from the cache as a whole; a tool list that is to be shared is in front.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from random import Random

from server.bench.phrases import Tool, draw_chat, draw_result, draw_task, draw_tools

WARM_UP = -1  # the round before the first that counts


@dataclass(frozen=True)
class Dialogue:
    """Requests of which each needs the answer before it.

    `turns` is the question, then the results of the calls. Without tools it is plain chat.
    """

    system: str
    tools: tuple[Tool, ...]
    turns: tuple[str, ...]
    max_tokens: int


@dataclass(frozen=True)
class Workload:
    """A kind of requests.

    `clients` are those that it is run with by default. In one round each client has `per_client`
    dialogues. Turns before `counted_from` (from 0) are made but not reported.
    """

    name: str
    about: str
    tool_count: int
    new_tools: bool = False
    turns: int = 1
    counted_from: int = 0
    max_tokens: int = 96
    per_client: int = 2
    clients: tuple[int, ...] = (1, 4)


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("cold", "5 tools, new ones in each request", 5, new_tools=True),
        Workload("warm5", "the same 5 tools, another question", 5, per_client=4, clients=(1, 4, 8)),
        Workload("warm40", "the same 40 tools, another question", 40),
        Workload("agent", "5 calls in a row, turns 2 to 5", 5, turns=5, counted_from=1,
                 per_client=1),
        Workload("chat", "plain text without tools", 0, clients=(1, 4, 8)),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Closed:
    """So many clients at the same time, each with its next request when it has its answer."""

    clients: int

    def __str__(self) -> str:
        return "1 client" if self.clients == 1 else f"{self.clients} clients"


@dataclass(frozen=True)
class Open:
    """Requests a second on average, whether or not earlier ones are answered."""

    rate: float

    def __str__(self) -> str:
        return f"{self.rate:g}/s"


ARRIVALS = 16  # in one round of an open loop: enough for a queue to form


@dataclass(frozen=True)
class Level:
    """A workload under a load; the unit that is reported."""

    workload: Workload
    load: Closed | Open

    @property
    def is_open(self) -> bool:
        return isinstance(self.load, Open)

    @property
    def clients(self) -> int:
        """Those that wait for answers; 1 in an open loop, where nobody does."""
        return self.load.clients if isinstance(self.load, Closed) else 1

    @property
    def dialogues(self) -> int:
        """Of one round."""
        return ARRIVALS if self.is_open else self.clients * self.workload.per_client

    @property
    def answers(self) -> int:
        """Requests of one round that are reported."""
        return self.dialogues * (self.workload.turns - self.workload.counted_from)

    def rounds(self, least_rounds: int, least_answers: int) -> int:
        """The least number of rounds that has both."""
        return max(least_rounds, -(-least_answers // self.answers))


@dataclass(frozen=True)
class Series:
    """All dialogues of one run.

    `salt` stands at the front of every prompt: it makes a run new to a server that has seen the
    same seed before.
    """

    seed: int
    salt: str

    def dialogues(self, level: Level, round: int) -> list[Dialogue]:
        """Those of one round. WARM_UP has one for each client, with the first turn only."""
        count, turns = level.dialogues, level.workload.turns
        if round == WARM_UP:
            count, turns = level.clients, 1
        return [self._dialogue(level, round, index, turns) for index in range(count)]

    def _dialogue(self, level: Level, round: int, index: int, turns: int) -> Dialogue:
        workload = level.workload
        place = f"{level.load}, {round}, {index}"
        tools: tuple[Tool, ...] = ()
        task = "You do the paperwork of an office."
        file = f"{self.salt}-{workload.name}"
        own = Random(f"{self.seed} {workload.name} {place}")
        if workload.tool_count:
            file += f" {place}" * workload.new_tools
            source = own if workload.new_tools else Random(f"{self.seed} {workload.name}")
            tools = draw_tools(source, workload.tool_count)
            texts = [f"{_case(own)}: please {draw_task(own, tools)}."]
            texts += [draw_result(own, tools) for _ in range(1, turns)]
        else:
            task = "You explain things at length, in whole sentences."
            texts = [f"{_case(own)}: {draw_chat(own)}"]
        return Dialogue(f"File {file}. {task}", tools, tuple(texts), workload.max_tokens)

    def arrivals(self, level: Level, round: int) -> list[float]:
        """When each dialogue of a round begins, in seconds after the first; all 0 if closed.

        The gaps of an open loop are exponentially distributed, as those of independent clients.
        """
        if isinstance(level.load, Closed) or round == WARM_UP:
            return [0.0] * len(self.dialogues(level, round))
        random = Random(f"{self.seed} {level.workload.name} {level.load} {round} arrivals")
        gaps = (random.expovariate(level.load.rate) for _ in range(1, level.dialogues))
        return [0.0, *accumulate(gaps)]


def _case(random: Random) -> str:
    """In front of a question, so that no two of them begin alike."""
    return f"Case {random.randint(10000, 99999)}"
