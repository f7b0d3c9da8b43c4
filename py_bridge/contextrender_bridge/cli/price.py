"""Show which price a model gets and where it is from, or set your own in the configuration file."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.prices import Price, Prices
from contextrender_bridge.base.setting_kinds import Unfit, as_prices
from contextrender_bridge.base.settings import (
    config_file,
    current_settings,
    in_force,
    read_again,
    write_setting,
)
from contextrender_bridge.base.shipped import price_table
from contextrender_bridge.printing import add_json, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender price`."""
    parser.add_argument("model", nargs="?", help="such as claude-opus-4-8; `*`: every other")
    change = parser.add_mutually_exclusive_group()
    change.add_argument(
        "--set",
        metavar="PRICE",
        help="dollars for a million tokens, as input=2,cached=0.5,output=8 (also written=2.5)",
    )
    change.add_argument("--unset", action="store_true", help="the list's price again")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the price, after setting it where that is asked; 1 where none is known."""
    changes = args.set is not None or args.unset
    if args.model is None:
        if changes:
            raise CommandError("name the model whose price it is.")
        return _list(as_json=args.json)
    if changes:
        _change(args.model, args.set)
    prices = Prices.of()
    price, source = prices.of_model(args.model), prices.source_of(args.model)
    if args.json:
        dollars = {name: 1e6 * value for name, value in asdict(price).items()} if price else None
        print_json({"model": args.model, "dollars_for_a_million": dollars, "source": source})
    elif price is None:
        print(f"{args.model}: no price is known. {_how(args.model)}")
    else:
        print(f"{args.model}: {source}")
        print(_numbers(price))
        if changes:
            print("A service that runs takes it at its next start.")
        elif source != "your own":
            print(_how(args.model))
    return 0 if price or args.unset else 1


def _change(model: str, numbers: str | None) -> None:
    """Raises CommandError for what is no price, or where the setting is not the file's."""
    source = next(row.source for row in in_force() if row.name == "prices")
    if not (source == "default" or source.startswith("prices in ")):
        raise CommandError(f"{source} sets the prices, before the configuration file: change it.")
    parts = [part.strip() for part in current_settings().prices.split(";") if part.strip()]
    kept = [part for part in parts if part.rpartition(":")[0] != model]
    if numbers is not None:
        kept.append(f"{model}:{numbers}")
    text = "; ".join(kept)
    try:
        as_prices(text)
    except Unfit as wrong:
        raise CommandError(f"--set {wrong}.") from None
    write_setting("prices", text)
    read_again()


def _list(*, as_json: bool) -> int:
    table, prices = price_table(), Prices.of()
    if as_json:
        told = {"source": table.source, "date": table.date, "models": len(table.models)}
        return print_json({"list": told, "own": sorted(prices.own)})
    for model, price in prices.own.items():
        print(f"{model}: your own\n{_numbers(price)}")
    count = f"{len(table.models):,} models"
    print(f"{count} have a price in {table.source}'s list ({table.date}).")
    print("A newer version of one of them gets the price of its family's newest.")
    print(_how("MODEL"))
    print(f"Own prices are in {config_file()}.")
    return 0


def _numbers(price: Price) -> str:
    told = {name: f"{1e6 * value:,.2f}" for name, value in asdict(price).items()}
    return (
        f"  $ per million tokens: input {told['fresh']}, cached {told['read']}, "
        f"written {told['written']} (1 h {told['written_long']}), output {told['output']}"
    )


def _how(model: str) -> str:
    return f"Set your own: contextrender price {model} --set input=2,cached=0.5,output=8"
