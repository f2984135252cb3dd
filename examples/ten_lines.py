"""The shortest program with an agent in it: one own tool, one question, one answer."""

from jaato import Agent, tool


@tool(access="read")
def price(item: str) -> float:
    """Look up the price of one item in euros."""
    return {"tea": 3.5, "cake": 4.2}[item]


print(Agent(tools=[price]).run_sync("What do tea and cake cost together?").text)
