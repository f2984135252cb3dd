"""What a basket costs."""

import csv


def prices(path: str = "stock.csv") -> dict[str, float]:
    """The price of each item in euros."""
    with open(path, newline="") as file:
        return {row["item"]: float(row["price_eur"]) for row in csv.DictReader(file)}


def total(basket: dict[str, int]) -> float:
    """The price of a basket of items and counts, in euros."""
    known = prices()
    return round(sum(known[item] * count for item, count in basket.items()), 2)


if __name__ == "__main__":
    print(total({"green tea": 2, "honey": 1}))
