import threading
import time

# Start message in background
client = JaatoClient()
client.connect(project, location, model)
client.configure_tools(registry)

def run_message():
    return client.send_message("Tell me a long story")

thread = threading.Thread(target=run_message)
thread.start()

# User can cancel mid-response
time.sleep(2)
if client.is_processing:
    client.stop()  # Signals cancellation

thread.join()  # Response will contain partial text + "[Generation cancelled]"

# Control streaming (enabled by default)
client.set_streaming_enabled(True)   # Real-time output, better cancellation
client.set_streaming_enabled(False)  # Batched output, simpler but no mid-stream cancel
