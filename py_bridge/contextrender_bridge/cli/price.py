"""Show a model's price and its source, or set your own price in the configuration file."""

import argparse
from dataclasses import asdict

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.prices import MILLION, Price, Prices
from contextrender_bridge.base.setting_kinds import InvalidSetting, as_prices
from contextrender_bridge.base.settings import (
    config_file,
    current_settings,
    forget_settings,
    list_settings,
    write_setting,
)
from contextrender_bridge.base.shipped import price_table
from contextrender_bridge.printing import add_json, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender price`."""
    parser.add_argument(
        "model", nargs="?", help="such as claude-opus-4-8; `*` is for all other models"
    )
    exclusive = parser.add_mutually_exclusive_group()
    exclusive.add_argument(
        "--set",
        metavar="PRICE",
        help="dollars per million tokens, as input=2,cached=0.5,output=8 (also written=2.5)",
    )
    exclusive.add_argument("--unset", action="store_true", help="use the list's price again")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print a model's price, after setting it with `--set` or removing it with `--unset`.

    Without a model, print all prices that the user set. Return 1 if the model has no price, except
    after `--unset`. Otherwise return 0.
    """
    is_change = args.set is not None or args.unset
    if args.model is None:
        if is_change:
            raise CommandError("--set and --unset need a model's name.")
        return _print_prices(as_json=args.json)
    if is_change:
        _set_price(args.model, args.set)  # `args.set` is None for --unset
    prices = Prices.of()
    price, source = prices.of_model(args.model), prices.source_of(args.model)
    if args.json:
        dollars = _dollars_per_million(price) if price else None
        print_json({"model": args.model, "dollars_for_a_million": dollars, "source": source})
    else:
        _print_price(args.model, price, source, is_change=is_change)
    return 0 if price or args.unset else 1


def _print_price(model: str, price: Price | None, source: str, *, is_change: bool) -> None:
    """Print a model's price and its source, or that no price is known.

    After a change, also print when a running service uses the new price.
    """
    if price is None:
        print(f"{model}: no price is known. {_price_hint(model)}")
        return
    print(f"{model}: {source}")
    print(_price_line(price))
    if is_change:
        print("A running service uses it after its next start.")
    elif source != "your own":
        print(_price_hint(model))


def _set_price(model: str, numbers: str | None) -> None:
    """Write a model's price to the configuration file. If `numbers` is None, remove the price.

    `numbers` is as in `input=2,output=8`. Raise CommandError if it is invalid, or if another source
    of settings, such as a variable, overrides the file.
    """
    source = next(setting.source for setting in list_settings() if setting.name == "prices")
    is_from_file = source.startswith("prices in ")
    if source != "default" and not is_from_file:
        raise CommandError(
            f"{source} sets the prices and overrides the configuration file. Set the price there."
        )
    # The setting is a list such as `MODEL:PRICE; MODEL:PRICE`. Replace the model's entry in it. A
    # model's name may have colons, so the last colon comes before the price.
    entries = [entry.strip() for entry in current_settings().prices.split(";") if entry.strip()]
    entries = [entry for entry in entries if entry.rpartition(":")[0] != model]
    if numbers is not None:
        entries.append(f"{model}:{numbers}")
    text = "; ".join(entries)
    try:
        as_prices(text)  # raises if a price is invalid
    except InvalidSetting as error:
        raise CommandError(f"--set {error}.") from None
    # Write the list, and let the settings be read again.
    write_setting("prices", text)
    forget_settings()


def _print_prices(*, as_json: bool) -> int:
    """Print the prices that the user set, and the source of all others. Return 0."""
    table, prices = price_table(), Prices.of()
    if as_json:
        list_info = {"source": table.source, "date": table.date, "models": len(table.models)}
        return print_json({"list": list_info, "own": sorted(prices.by_model)})
    for model, price in prices.by_model.items():
        print(f"{model}: your own\n{_price_line(price)}")
    count = f"{len(table.models):,} models"
    print(f"{count} have a price in {table.source}'s list ({table.date}).")
    print("A newer version of a model gets the price of its family's newest in the list.")
    print(_price_hint("MODEL"))
    print(f"Your own prices are in {config_file()}.")
    return 0


def _dollars_per_million(price: Price) -> dict[str, float]:
    """Map each kind of tokens, such as `uncached`, to its price in dollars per million tokens."""
    return {kind: MILLION * dollars for kind, dollars in asdict(price).items()}


def _price_line(price: Price) -> str:
    """Return a line with the dollars per million tokens of each kind."""
    dollars = {kind: f"{amount:,.2f}" for kind, amount in _dollars_per_million(price).items()}
    return (
        f"  $ per million tokens: input {dollars['uncached']}, cached {dollars['cache_read']}, "
        f"written {dollars['cache_write']} (1 h {dollars['cache_write_1h']}), "
        f"output {dollars['output']}"
    )


def _price_hint(model: str) -> str:
    """Return a sentence with the command that sets a model's price."""
    return f"Set your own: contextrender price {model} --set input=2,cached=0.5,output=8"
