"""Constraints into the words of a shopper: a varied grammar, without a model.

Each constraint becomes one phrase that holds its value as it is written, except services, which have their
usual names. The kind of product is named by its category, never by a title.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from problems.shopping.answer import PriceRange, Target
from problems.shopping.vouchers import Voucher


class VerbaliserError(Exception):
    """The endpoint that words problems refuses us; the message says what to look at, and holds no secret."""


_PHRASES: dict[str, tuple[str, ...]] = {
    "brand": ("from the brand {}", "by {}", "from {}"),
    "color_family": ("in {}", "in the color {}", "in color {}"),
    "size": ("in size {}", "size {}"),
    "bedding_size_2": ("in {} size", "sized {}"),
    "volume": ("in the {} size", "with a volume of {}"),
    "compatibility_by_model": ("that fit the {}", "compatible with {}"),
    "make": ("for {} cars", "that fit {} vehicles"),
    "material": ("made of {}", "in {} material"),
    "clothing_material": ("made of {}", "in {} fabric"),
    "bag_material": ("made of {}",),
    "lamp_material": ("made of {}",),
    "sports_material": ("made of {}",),
    "case_material": ("made of {}", "in {}"),
    "upper_material": ("with a {} upper",),
    "sole_material": ("with a {} sole", "with {} soles"),
    "shell_material": ("with a {} shell",),
    "fa_pattern": ("with a {} pattern", "in a {} design"),
    "pattern": ("with a {} pattern", "in a {} design"),
    "fa_general_styles": ("in {} style", "with a {} look"),
    "fa_season": ("for {}", "made for {}"),
    "recommended_gender": ("for {} users", "suitable for {}"),
    "recommended_age": ("for {}", "suitable for {}"),
    "age_group": ("for {}",),
    "skin_type": ("for {} skin", "suited to skin of type {}"),
    "hair_type": ("for {} hair",),
    "concerns_hair_care": ("against {}", "that help with {}"),
    "skin_benefit": ("with a {} effect",),
    "active_ingredient": ("with {}", "containing {}"),
    "ingredient_preference": ("that are {}",),
    "scents": ("with a {} scent", "scented {}"),
    "packaging_type": ("in a {}",),
    "pack_type": ("as a {}", "sold as {}"),
    "units_hb": ("as a {}", "sold as {}"),
    "piece_count": ("with {}", "sold in {}"),
    "occasion": ("for {}",),
    "activity_type": ("for {}",),
    "room_type": ("for the {}",),
    "toy_theme": ("with a {} theme",),
    "input_voltage": ("running on {}", "with {} input voltage"),
    "battery_life": ("with {} of battery life",),
    "battery_capacity": ("with {} capacity",),
    "output_power": ("with {} output",),
    "plug_type": ("with a {} plug",),
    "dress_length": ("in {} length", "with a {} cut"),
    "sleeves": ("with {} design", "in a {} cut"),
    "m_top_neckline": ("with a {}", "with a {} neckline"),
    "collar_type": ("with a {}", "with a {} collar"),
    "top_fit_types": ("with a {}", "in {}"),
    "closure_type": ("with {} closure",),
    "helmet_type": ("of the {} type",),
    "light_bulb_type": ("with a {} bulb",),
    "light_bulb_colour": ("with {} light",),
    "mat_thickness": ("{} thick",),
    "waterproof": ("that are {}", "rated {}"),
    "waterproof_function": ("that are {}",),
    "finish": ("with a {} finish", "in a {} finish"),
    "formulation": ("in {} form",),
    "visor_type": ("with {}", "with a {}"),
    "insulation": ("with {} insulation", "with {}"),
    "lid_type": ("with a {}",),
    "fabric_feature": ("that are {}", "in {} fabric"),
    "bluetooth_version": ("with bluetooth {}",),
    "earphone_fit": ("of the {} kind", "with {} fit"),
    "connection_type": ("with {} connection",),
    "sensor_resolution": ("with {}", "with a resolution of {}"),
    "power_source": ("running on {}", "with {} as power source"),
    "hand_orientation": ("for {}",),
    "motor_type": ("with a {} motor",),
    "battery_count": ("with {}", "that come with {}"),
    "chuck_size": ("with a {} chuck",),
    "phonecase_theme": ("with a {} theme",),
    "type_case_cover": ("of the {} type",),
    "bag_size": ("for {} laptops", "in size {}"),
    "dietary_needs": ("that are {}",),
    "shape": ("in a {} shape",),
    "storage_feature": ("that are {}", "described as {}"),
    "special_feature": ("with {}", "featuring {}"),
    "case_function": ("with {}", "featuring {}"),
    "power_tool_feature": ("with {}", "featuring {}"),
    "certification": ("with {} certification", "certified {}"),
}
_SERVICES = {
    "official": ("from LazMall", "available on LazMall", "with LazMall perks", "from an official store"),
    "freeShipping": (
        "with free shipping",
        "with free delivery",
        "that ship for free",
        "with no-cost delivery",
    ),
    "COD": ("with cash on delivery", "that can be paid by cash on delivery", "with payment on delivery"),
    "flashsale": ("with LazFlash deals", "on LazFlash sale", "from a flash sale"),
}
_ABOVE = (
    "priced above {low} PHP",
    "that cost more than {low} pesos",
    "with a price over {low} PHP",
    "with prices starting at {low} PHP",
    "that cost at least {low} pesos",
)
_BELOW = (
    "priced below {high} PHP",
    "that cost less than {high} pesos",
    "for under {high} PHP",
    "that cost at most {high} pesos",
    "priced at up to {high} PHP",
)
_BETWEEN = (
    "in the price range of {low} to {high} PHP",
    "that cost between {low} and {high} pesos",
    "priced between {low} and {high} PHP",
    "priced from {low} to {high} pesos",
    "with a price between {low} and {high} PHP",
)
_ONE = (
    "Show me {}.",
    "I'm looking for {}.",
    "Looking for {}.",
    "Can you find {}?",
    "I need {}.",
    "Please help me find {}.",
    "I want {}.",
    "I'd like to buy {}.",
    "Do you have {}?",
    "Could you show me {}?",
    "I am searching for {}.",
    "Find me {}, please.",
)
_SHOP = (
    ("Find a shop that offers these items: ", " The shop should sell all these products."),
    ("I want to buy everything in one place. Which shop sells all of the following? ", ""),
    ("Looking for a shop that offers these items: ", " Please show shops that sell all of them."),
    ("Find one seller who has all of these: ", ""),
    ("Which store sells all of these? ", ""),
    ("I would like to order everything from one shop: ", ""),
    ("Show me a shop where I can get all of the following: ", " Everything must come from that shop."),
)
_SEVERAL = (
    "I'm looking for several things: ",
    "I need the following: ",
    "Show me these products: ",
    "I want to buy these: ",
    "Please find me all of these: ",
    "",
)
_WEB = (
    "Whatever the answer is, I want to buy {} with that in the name.",
    "The answer is in the name of what I want: {}.",
    "Please find me {}, called after the answer.",
    "I would like to buy {} whose title names the answer.",
)
_TERMS_FIRST = 0.2
"""How often price and services are said before what the product is like."""
_ORDINALS = ("First, ", "Second, ", "Third, ", "Fourth, ")


def product_query(rng: Random, wanted: Sequence[tuple[str, Target]]) -> str:
    """What a shopper says who wants one product; `wanted` has its kind and target."""
    ((noun, target),) = wanted
    return rng.choice(_ONE).format(noun_phrase(rng, noun, target))


def shop_query(rng: Random, wanted: Sequence[tuple[str, Target]]) -> str:
    """What a shopper says who wants several products from one shop; `wanted` has each kind and target."""
    opening, closing = rng.choice(_SHOP)
    return opening + _enumerated(rng, wanted) + closing


def voucher_query(rng: Random, wanted: Sequence[tuple[str, Target]], voucher: Voucher) -> str:
    """What a shopper says who has a budget and a voucher. The rules' text is ShoppingBench's."""
    if len(wanted) == 1:
        return product_query(rng, wanted) + voucher_text(voucher)
    return rng.choice(_SEVERAL) + _enumerated(rng, wanted) + voucher_text(voucher)


def web_query(rng: Random, wanted: Sequence[tuple[str, Target]], question: str) -> str:
    """What a shopper says who names what a product must be called by a question only."""
    ((noun, target),) = wanted
    return f"{question} {rng.choice(_WEB).format(noun_phrase(rng, noun, target))}"


def voucher_text(voucher: Voucher) -> str:
    """Budget and rules, word for word as ShoppingBench writes them."""
    where = (
        "applies to all products"
        if voucher.voucher_type == "platform"
        else "only applies to the products from the same shop"
    )
    if voucher.discount_type == "fixed":
        what = f"a fixed discount of `{_amount(voucher.face_value)}`"
    else:
        percent = round((voucher.discount or 0) * 100)
        what = f"a percentage discount of `{percent}%` with a cap of `{_amount(voucher.cap)}`"
    return (
        f"\n\nMy budget is only `{_amount(voucher.budget)}`, but I have a voucher with the following rules:\n"
        f"1. The voucher {where}.\n"
        "2. It is valid only when the total price of the products exceeds "
        f"`{_amount(voucher.threshold)}`.\n"
        f"3. It provides {what}."
    )


def noun_phrase(rng: Random, noun: str, target: Target) -> str:
    """One product: its kind, and a phrase for each constraint; price and services mostly last."""
    features = [_feature(rng, key, value) for option in target.sku_options for key, value in option.items()]
    features += [
        _feature(rng, key, value)
        for entry in target.attributes
        for key, values in entry.items()
        for value in values
    ]
    rng.shuffle(features)
    terms = [rng.choice(_SERVICES[service]) for service in target.service if service in _SERVICES]
    terms += [price_phrase(rng, price) for price in target.price]
    rng.shuffle(terms)
    return noun + _joined(terms + features if rng.random() < _TERMS_FIRST else features + terms)


def price_phrase(rng: Random, price: PriceRange) -> str:
    """A price range in words."""
    if price.high is None:
        return rng.choice(_ABOVE).format(low=_amount(price.low))
    if price.low is None:
        return rng.choice(_BELOW).format(high=_amount(price.high))
    return rng.choice(_BETWEEN).format(low=_amount(price.low), high=_amount(price.high))


def _feature(rng: Random, key: str, value: str) -> str:
    forms = _PHRASES.get(key, (f"with {key.replace('_', ' ')} {{}}",))
    return _with_article(rng.choice(forms).format(value))


def _with_article(phrase: str) -> str:
    """`phrase` with "an" before a vowel."""
    return re.sub(r"\ba (?=[aeiou8])(?!u[ns][ibe ]|eu|uk)", "an ", phrase)


def _joined(phrases: Sequence[str]) -> str:
    if not phrases:
        return ""
    if len(phrases) == 1:
        return f" {phrases[0]}"
    return f" {', '.join(phrases[:-1])} and {phrases[-1]}"


def _enumerated(rng: Random, wanted: Sequence[tuple[str, Target]]) -> str:
    phrases = [noun_phrase(rng, noun, target) for noun, target in wanted]
    if rng.random() < 0.5:
        return "; ".join(f"({i}) {phrase}" for i, phrase in enumerate(phrases, start=1)) + "."
    return " ".join(f"{_ORDINALS[i]}{phrase}." for i, phrase in enumerate(phrases))


def _amount(value: float | None) -> str:
    if value is None:
        raise ValueError("an amount is missing")
    return str(int(value)) if value.is_integer() else str(value)
