success, result = executor.execute(
    "writeFile",
    {"path": "output.txt", "content": "data"}
)

if "_permission" in result:
    perm = result["_permission"]
    print(f"Decision: {perm['decision']}")
    print(f"Reason: {perm['reason']}")
    print(f"Method: {perm['method']}")
