"""The server of chains: it draws the masks, follows the tokens, and unmasks the sums."""

import secrets
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from extensions.errors import MessageError
from fl.chain.complaint import Complaint
from fl.chain.report import HopReport
from fl.chain.state import ChainState, Suspect, Totals
from fl.chain.token import LinkKeys, Token, uniform
from fl.round.machines import Machine, Output, Refusal, Round, Timer, keep
from fl.round.messages import SERVER, Message, Party, Value, party_name
from fl.round.quantization import FixedPoint


class ChainServer(Machine):
    """The server's part. Without `edges` it collects the sums itself."""

    def __init__(
        self,
        round: Round,
        fixed_point: FixedPoint,
        chains: int,
        edges: Sequence[Party],
        time_limit: float,
        timeout: float,
    ) -> None:
        super().__init__(round, SERVER)
        self._fixed_point = fixed_point
        self._time_limit = time_limit
        self._timeout = timeout
        self._keys = LinkKeys()
        order = list(round.clients)
        secrets.SystemRandom().shuffle(order)
        collectors = [edges[c % len(edges)] if edges else SERVER for c in range(chains)]
        self._chains = [
            ChainState(c, tuple(sorted(order[c::chains])), collector, time_limit)
            for c, collector in enumerate(collectors)
        ]
        self._of = {client: chain for chain in self._chains for client in chain.members}
        self._edges = tuple(dict.fromkeys(c for c in collectors if c != SERVER))
        self._totals = Totals(self._chains)
        self._refused: set[int] = set()
        self._ended = False

    def start(self, now: float) -> Iterable[Output]:
        for edge in self._edges:
            feeding = [
                c for chain in self._chains if chain.collector == edge for c in chain.members
            ]
            yield self._keys.for_edge(self, edge, feeding)
        for chain in self._chains:
            chain.time_limit = now + self._time_limit
            yield from self._keys.for_clients(self, chain)
            yield from self._issue(chain, now)

    def _issue(self, chain: ChainState, now: float) -> Iterator[Output]:
        """Sends a token with a new mask to a random first client."""
        able = [client for client in chain.members if client not in chain.lost]
        if len(able) < 2:
            yield from self._settle(chain, now)
            return
        chain.mask = uniform(self.round.size, self._fixed_point.dtype)
        chain.masks += 1
        chain.waiting = secrets.choice(able)
        token = Token(
            chain=chain.number,
            mask=chain.masks,
            attempt=chain.attempt,
            users=(),
            participants=len(chain.members),
            time_limit=chain.time_limit,
            values=chain.mask,
        )
        key = self._keys.key(SERVER, chain.waiting)
        yield token.message(self, chain.waiting, "token", key)
        yield Timer(f"chain {chain.number}", now + self._timeout)

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        if self._ended or message.sender in self._refused:
            return
        holder = message.sender
        try:
            self.check_round(message)
            if message.kind == "held" and holder in self._edges:
                holder = (holder, *message.clients("users"))[-1]
            if message.kind == "refused":
                yield from self._complaint(message, now)
            elif holder in self._of:
                yield from self._report(message, holder, now)
            elif message.kind == "merged":
                yield from self._merged(message)
        except MessageError as error:
            if holder in self._of:
                yield from self._exclude(holder, str(error), now, complainant=message.sender)

    def _report(self, message: Message, holder: int, now: float) -> Iterator[Output]:
        """Reads the report of a holder, or of the edge node that has its sum, and acts on it."""
        chain, key = self._of[holder], self._keys.key(holder, SERVER)
        report = HopReport.read(message, self, chain, holder, key, self._fixed_point)
        users = report.users
        if chain.expects(users, report.attempt):
            yield from self._advance(report, chain, now)
        elif suspect := chain.find_suspect(users, report.attempt):
            new = holder not in chain.branches
            chain.branches.setdefault(holder, (users, report.receiver))
            reason = f"client {holder} has a token that it did not report"
            yield from self._suspect(suspect, message, reason, now)
            if new:
                yield from self._take_kept(chain, now)

    def _advance(self, report: HopReport, chain: ChainState, now: float) -> Iterator[Output]:
        if report.receiver is None:
            reason = f"it can hand the token of chain {chain.number} to nobody"
            yield from self._exclude(report.users[-1], reason, now)
            return
        chain.advance(report.users, report.attempt, report.receiver)
        if report.returned:
            chain.returned = True
            if report.values is not None:
                self._totals.add(report.values, [chain])
            yield from self._settle(chain, now)
        elif report.receiver in chain.lost:
            yield from self._again(chain, now)
        else:
            yield Timer(f"chain {chain.number}", now + self._timeout)
            yield from self._take_kept(chain, now)

    def _take_kept(self, chain: ChainState, now: float) -> Iterator[Output]:
        """Judges again what waited for a report."""
        kept, chain.kept = chain.kept, []
        for message in kept:
            yield from self.receive(message, now)

    def _suspect(
        self, suspect: Suspect, message: Message, reason: str, now: float
    ) -> Iterator[Output]:
        """Excludes who is at fault by a message; keeps the message if that is not decided."""
        if suspect.due:
            keep(self._of[suspect.client].kept, message)
        else:
            yield from self._exclude(suspect.client, reason, now, complainant=message.sender)

    def _settle(self, chain: ChainState, now: float) -> Iterator[Output]:
        """Ends a chain; when all chains of its edge have ended, asks the edge for the total."""
        chain.settled = True
        yield Timer(f"chain {chain.number}", None)
        yield from self._take_kept(chain, now)
        for client in chain.members:
            if client not in chain.lost and not (chain.returned and client in chain.path):
                yield from self._refuse(client, f"chain {chain.number} ended without it")
        edge = chain.collector
        if edge != SERVER and (wanted := self._totals.ask(edge)):
            yield self.send(edge, "merge", sums=np.array(wanted, dtype=np.int64))
            yield Timer(f"edge {edge}", now + self._timeout)
        yield from self._finish()

    def _merged(self, message: Message) -> Iterator[Output]:
        edge = message.sender
        values = message.array("values", self._fixed_point.dtype, (self.round.size,))
        if self._totals.owes(edge):
            self._totals.merge(edge, values)
            yield Timer(f"edge {edge}", None)
            yield from self._finish()

    def _finish(self) -> Iterator[Output]:
        """Yields the mean once every chain has ended and no edge node owes a total."""
        if not self._totals.complete():
            return
        self._ended = True
        aggregate = self._totals.aggregate(self.round, self._fixed_point)
        if aggregate is None:
            raise self.failure("no chain returned the sum of at least two clients.")
        yield aggregate

    def expire(self, timer: str, now: float) -> Iterable[Output]:
        kind, number = timer.split(" ")
        if kind == "edge":
            for client in self._totals.lose(int(number)):
                yield from self._refuse(client, f"{party_name(int(number))} lost its chain's sum")
            yield from self._finish()
            return
        chain = self._chains[int(number)]
        if chain.waiting == chain.collector:
            yield from self._settle(chain, now)
            return
        overdue = chain.find_overdue()
        assert overdue is not None
        reason = f"no report of the token of chain {number} within {self._timeout:g} s"
        yield from self._exclude(overdue, reason, now)

    def _complaint(self, message: Message, now: float) -> Iterator[Output]:
        complaint, sender = Complaint.read(message), message.sender
        chain = self._of.get(complaint.culprit)
        if chain is None or sender not in {*chain.members, chain.collector} - {complaint.culprit}:
            return
        if suspect := complaint.judge(chain, sender):
            reason = f"{party_name(sender)} refused what it sent: {complaint.reason}"
            yield from self._suspect(suspect, message, reason, now)

    def _refuse(self, client: int, reason: str) -> Iterator[Output]:
        if client not in self._refused:
            self._refused.add(client)
            yield Refusal(client, reason)

    def _exclude(
        self, client: int, reason: str, now: float, complainant: Party | None = None
    ) -> Iterator[Output]:
        """Refuses a client by name, and removes it unless later holders have its update already.

        The last good hop is undone if its client is the one that was lost, or if the next client
        refused the token that it sent. Where other tokens went through the client, the chain goes
        back to its last good hop as well: the clients that had those could take no second one.
        """
        chain = self._of[client]
        if client in chain.lost:
            return
        branched = chain.on_a_branch(client) and not chain.settled
        last = chain.path[-1:] == [client] and not chain.settled
        rolled_back = last and (branched or chain.waiting in (client, complainant))
        if client in chain.path and not rolled_back:
            reason += "; its update had been added before"
            yield from self._refuse(client, reason)
            if branched and chain.waiting != chain.collector:
                yield from self._again(chain, now)
            return
        yield from self._refuse(client, reason)
        chain.lost.add(client)
        if chain.settled:
            return
        if rolled_back:
            chain.path.pop()
        if rolled_back or branched or chain.waiting == client:
            yield from self._again(chain, now)
        else:
            yield from self._announce(chain, SERVER)

    def _again(self, chain: ChainState, now: float) -> Iterator[Output]:
        """Sends the chain back to its last good hop; starts it with a new mask if there is none."""
        chain.go_back()
        holder = chain.path[-1] if chain.path else SERVER
        yield from self._announce(chain, holder)
        if holder == SERVER:
            yield from self._issue(chain, now)
        else:
            chain.waiting = holder
            yield Timer(f"chain {chain.number}", now + self._timeout)

    def _announce(self, chain: ChainState, holder: Party) -> Iterator[Output]:
        shunned = self._refused.intersection(chain.path[:-1])  # their tokens were handed on
        body: dict[str, Value] = {
            "attempt": chain.attempt,
            "holder": holder,
            "held": chain.held.get(holder, 0),
            "lost": np.array(sorted(chain.lost | shunned), dtype=np.int64),
        }
        for client in chain.members:
            if client not in chain.lost:
                yield self.send(client, "again", **body)
