# Register tools
def greet(args):
    name = args.get("name", "World")
    return {"message": f"Hello, {name}!"}

def calculate(args):
    a = args.get("a", 0)
    b = args.get("b", 0)
    op = args.get("op", "add")
    if op == "add":
        return {"result": a + b}
    elif op == "multiply":
        return {"result": a * b}

executor.register("greet", greet)
executor.register("calculate", calculate)

# Clear all tools
executor.clear_executors()
