# Start server as daemon
python -m server --ipc-socket /tmp/jaato.sock --daemon

# Start with WebSocket for remote access
python -m server --ipc-socket /tmp/jaato.sock --web-socket :8080 --daemon

# Check server status
python -m server --status

# Stop server
python -m server --stop

# Connect TUI client
python rich_client.py --connect /tmp/jaato.sock
