"""A browser whose user agrees to everything: fetches a page and follows where it leads."""

import sys
import urllib.request

with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1], timeout=60) as page:
    page.read()
