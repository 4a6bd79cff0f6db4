"""A pipeline of data frames: cleaning, a shuffle, three joins and aggregations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

BUCKETS = 4

Frame = Any


def orders(part: int, rows: int) -> Frame:
    rng = np.random.default_rng([1, part])
    return pd.DataFrame(
        {
            "customer": rng.integers(0, rows, rows),
            "product": rng.integers(0, 5_000, rows),
            "store": rng.integers(0, 300, rows),
            "day": rng.integers(0, 365, rows),
            "amount": rng.integers(1, 20, rows),
            "price": rng.random(rows) * 100,
        }
    )


def customers(rows: int) -> Frame:
    rng = np.random.default_rng(2)
    return pd.DataFrame(
        {
            "customer": np.arange(rows),
            "country": rng.integers(0, 40, rows),
            "segment": rng.integers(0, 6, rows),
            "since": rng.integers(1990, 2026, rows),
        }
    )


def products() -> Frame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "product": np.arange(5_000),
            "group": rng.integers(0, 50, 5_000),
            "cost": rng.random(5_000) * 60,
        }
    )


def stores() -> Frame:
    rng = np.random.default_rng(4)
    return pd.DataFrame({"store": np.arange(300), "region": rng.integers(0, 12, 300)})


def clean(table: Frame) -> Frame:
    kept = table[(table["price"] > 1.0) & (table["amount"] < 18)]
    return kept.assign(value=kept["price"] * kept["amount"]).drop_duplicates()


def bucket(table: Frame, number: int) -> Frame:
    return table[table["customer"] % BUCKETS == number].reset_index(drop=True)


def join_customers(people: Frame, *parts: Frame) -> Frame:
    return pd.concat(parts, ignore_index=True).merge(people, on="customer")


def join_products(table: Frame, goods: Frame) -> Frame:
    joined = table.merge(goods, on="product")
    return joined.assign(margin=joined["value"] - joined["cost"] * joined["amount"])


def join_stores(table: Frame, shops: Frame) -> Frame:
    return table.merge(shops, on="store")


def by_month(table: Frame) -> Frame:
    month = table.assign(month=table["day"] // 31)
    return month.groupby(["month", "country", "group"], as_index=False)[["value", "margin"]].sum()


def by_region(table: Frame) -> Frame:
    return table.groupby(["region", "segment"], as_index=False)[["value", "margin"]].sum()


def best_customers(table: Frame) -> Frame:
    total = table.groupby("customer", as_index=False)["margin"].sum()
    return total.sort_values(["margin", "customer"], ascending=False).head(100)


def report(*tables: Frame) -> dict[str, float]:
    sums: dict[str, float] = {}
    for table in tables:
        for column in ("value", "margin"):
            if column in table:
                name = f"{column} by {table.columns[0]}"
                sums[name] = sums.get(name, 0.0) + round(float(table[column].sum()), 3)
    return sums


def frames(call: Any, scale: float = 1.0) -> Any:
    """Join 12 parts of orders with customers, products and stores."""
    parts, rows = (12, 160_000) if scale >= 1 else (3, max(500, round(160_000 * scale)))
    people, goods, shops = call(customers, rows), call(products), call(stores)
    cleaned = [call(clean, call(orders, p, rows)) for p in range(parts)]
    found = []
    for number in range(BUCKETS):
        mine = [call(bucket, table, number) for table in cleaned]
        joined = call(join_customers, call(bucket, people, number), *mine)
        whole = call(join_stores, call(join_products, joined, goods), shops)
        found += [call(function, whole) for function in (by_month, by_region, best_customers)]
    return call(report, *found)
