"""Generated agent runs that look real: orders and invoices are looked up and used."""

import json
from random import Random

from contextrender_bridge.base.wire import Json

from tests.support.transcripts import assistant, call, result, system, user

CITIES = ("Lisbon", "Osaka", "Quito", "Tromsø", "Windhoek", "Hobart", "Aarhus", "Cusco")
TASK = (
    "Reconcile the quarter: find every delayed order, check its shipment and invoice, and report "
    "at the end the shipments that a carrier has held."
)
XSS = (
    '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
    '<svg onload="window.hacked=1"></svg><a href="javascript:window.hacked=1">click</a>'
)


def make_run(results: int, seed: int = 7, hostile: bool = False) -> list[Json]:
    """Return a run with this many tool results; `hostile` puts markup and script into every
    text."""
    run = _Run(Random(seed), XSS if hostile else "")
    while run.results < results:
        run.step(min(results - run.results, 1 if run.random.random() < 0.85 else 3))
    last = "These shipments were held: " + ", ".join(run.shipments[-5:])
    return [*run.messages, assistant(last + run.hostile)]


class _Run:
    def __init__(self, random: Random, hostile: str) -> None:
        self.random = random
        self.hostile = hostile
        self.results = 0
        self.orders: list[str] = []
        self.shipments: list[str] = []
        self.messages = [
            system("You are a careful back-office agent. " + hostile),
            user(TASK + hostile),
        ]

    def step(self, calls: int) -> None:
        """Add an assistant message with this many calls, and their results."""
        calls_with_results = [self._call(self.results + index) for index in range(calls)]
        self.messages.append(
            assistant(self._thought(), *(call_message for call_message, _ in calls_with_results))
        )
        self.messages += [
            result(call_message["id"], text + self.hostile)
            for call_message, text in calls_with_results
        ]
        self.results += calls
        if self.results % 97 == 0:
            self.messages.append(user("Go on with the next batch, please."))

    def _thought(self) -> str:
        if self.orders and self.random.random() < 0.2:
            return f"{self._pick(self.orders)} needs another look. {self.hostile}"
        return self.hostile

    def _pick(self, values: list[str]) -> str:
        """Return mostly a recent value, sometimes an old one."""
        recent = values[-6:] if self.random.random() < 0.75 else values
        return self.random.choice(recent)

    def _number(self, digits: int) -> int:
        return self.random.randrange(10 ** (digits - 1), 10**digits)

    def _call(self, number: int) -> tuple[Json, str]:
        kinds = ["search_orders"]
        if self.orders:
            kinds += ["get_order", "get_order", "track_shipment", "read_invoice"]
        name = "search_orders" if number % 23 == 0 else self.random.choice(kinds)
        arguments, text = getattr(self, "_" + name)()
        if self.hostile:
            arguments["note"] = self.hostile
        return call(f"call_{number}", name, json.dumps(arguments, ensure_ascii=False)), text

    def _search_orders(self) -> tuple[Json, str]:
        new_orders = [f"ORD_{self._number(6)}" for _ in range(6)]
        self.orders += new_orders
        random_share, choice = self.random.random, self.random.choice
        rows = [
            {"order": order, "city": choice(CITIES), "delayed": random_share() < 0.5}
            for order in new_orders
        ]
        page = {"total": len(self.orders), "rows": rows}
        fields = {"status": "delayed", "page": len(self.orders) // 6}
        return fields, json.dumps(page, ensure_ascii=False)

    def _get_order(self) -> tuple[Json, str]:
        order = self._pick(self.orders)
        shipment = f"SHP-{self._number(7)}-X"
        self.shipments.append(shipment)
        lines = [
            {"sku": f"SKU_{self.random.randrange(10**4)}", "quantity": self.random.randrange(1, 9)}
            for _ in range(self.random.randrange(3, 40))
        ]
        body = {"order": order, "shipment": shipment, "lines": lines, "currency": "EUR"}
        return {"order": order}, json.dumps(body)

    def _track_shipment(self) -> tuple[Json, str]:
        shipment = self._pick(self.shipments or self.orders)
        stops = "\n".join(
            f"2026-0{self.random.randrange(1, 9)}-{self.random.randrange(10, 28)} "
            f"{self.random.choice(CITIES)}: {self.random.choice(('arrived', 'held', 'left'))}"
            for _ in range(self.random.randrange(3, 60))
        )
        return {"shipment": shipment}, f"Tracking {shipment}\n{stops}"

    def _read_invoice(self) -> tuple[Json, str]:
        order = self._pick(self.orders)
        number = f"INV_{self._number(6)}"
        body = "\n".join(
            f"{index + 1:>3}  SKU_{self.random.randrange(10**4):<8} "
            f"{self.random.randrange(100, 90000) / 100:>10.2f}"
            for index in range(self.random.randrange(4, 80))
        )
        return {"order": order}, f"INVOICE {number} for {order}\n{body}\nTOTAL due"
