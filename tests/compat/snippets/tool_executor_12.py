from concurrent.futures import ThreadPoolExecutor

def run_tool(tool_name, args, call_id):
    def callback(chunk):
        print(f"[{call_id}] {chunk}")

    return executor.execute(
        tool_name,
        args,
        tool_output_callback=callback,
        call_id=call_id
    )

# Execute tools in parallel
with ThreadPoolExecutor(max_workers=4) as pool:
    futures = [
        pool.submit(run_tool, "analyze", {"f": "a.py"}, "call_1"),
        pool.submit(run_tool, "analyze", {"f": "b.py"}, "call_2"),
    ]
    results = [f.result() for f in futures]
