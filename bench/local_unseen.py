"""A second set of prompts and tasks for the embedded model, written before its prompt was tuned and never used in it."""

from __future__ import annotations

from bench.local_cases import HERE, TEXT, Task, case, spec

CALENDAR = spec("calendar_add", "Add an entry to the calendar.", {"title": TEXT, "date": TEXT})
CALENDAR_FOUND = '{"results":[{"query":"calendar","tools":[{"name":"calendar_add","description":"Add an entry to the calendar."}]}]}'

UNSEEN_CASES = (
    case("Let me see what is written in chapters/intro.tex.", "readFile", path=r"chapters/intro\.tex"),
    case(
        "Display the first 15 lines of access.log.",
        "readFile",
        {"offset": "[01]"},
        path=r"access\.log",
        limit="15",
    ),
    case("Which licence does LICENSE.txt grant?", "readFile", path=r"LICENSE\.txt"),
    case("Explain what scripts/backup.sh does.", "readFile", path=r"scripts/backup\.sh"),
    case("How many entries are in the folder invoices?", "list_directory", path="(./)?invoices/?"),
    case("Show the files under app/templates.", "list_directory", path="app/templates/?"),
    case(
        "Put the line 'milk, eggs, flour' in a new file groceries.txt.",
        "writeNewFile",
        path=r"groceries\.txt",
        content=r"milk, eggs, flour\s*",
    ),
    case(
        "Create the file square.py with a function square(x) that returns x times x.",
        "writeNewFile",
        path=r"square\.py",
        content=r"(?s).*def square\(x.*\).*return x ?\*\*? ?[x2]\s*",
    ),
    case(
        "Start a file called notes/ideas.md with the heading # Ideas.",
        "writeNewFile",
        path=r"notes/ideas\.md",
        content=r"# Ideas\s*",
    ),
    case(
        "In nginx.conf change worker_processes 1 to worker_processes 4.",
        "updateFile",
        path=r"nginx\.conf",
        old=".*1;?",
        new=".*4;?",
    ),
    case(
        "Rename the variable cnt to count in loop.js: there is one line 'let cnt = 0'.",
        "updateFile",
        path=r"loop\.js",
        old=".*cnt.*",
        new=".*count.*",
    ),
    case(
        "Swap the word 'cheap' for 'affordable' in offer.txt.",
        "updateFile",
        path=r"offer\.txt",
        old="cheap",
        new="affordable",
    ),
    case(
        "Where is the function send_invoice called?",
        "grep_content",
        {**HERE, "max_results": r"\d+"},
        pattern=".*send_invoice.*",
    ),
    case("Look for FIXME below the folder server.", "grep_content", pattern=".*FIXME.*", path="server/?"),
    case("Which files contain the text localhost:5432?", "grep_content", HERE, pattern=r".*localhost:5432.*"),
    case(
        "List all YAML files in the project.",
        "glob_files",
        {"root": r"\.?/?"},
        pattern=r"(\*\*/)?\*\.ya?ml|.*yml.*",
    ),
    case("Throw away the file report_old.docx.", "removeFile", path=r"report_old\.docx"),
    case(
        "Rename chart.svg to figure1.svg.",
        "moveFile",
        source_path=r"chart\.svg",
        destination_path=r"figure1\.svg",
    ),
    case("Which Python version is installed?", "run", command=r"python3? (--version|-V).*"),
    case("Install the dependencies with npm.", "run", command="npm (install|i|ci)"),
    case(
        "Draw up a plan for the garden party: invite guests, buy drinks, set up tables.",
        "createPlan",
        title=".*",
        steps=".*",
    ),
    case("Book a meeting room for tomorrow at ten.", "list_tools", query=".*(room|meeting|book|calendar).*"),
    case(
        "Translate this page into French with DeepL: example.org/about.",
        "list_tools",
        {},
        query=".*(transl|page|web).*",
    ),
    case("How many minutes are in three hours?", ""),
)

UNSEEN_TASKS = (
    Task(
        "Look at colors.txt and save the last colour in it as last.txt.",
        (
            (
                case("", "readFile", {"limit": ".*", "offset": ".*"}, path=r"colors\.txt"),
                "1: red\n2: green\n3: violet",
            ),
            (case("", "writeNewFile", path=r"last\.txt", content=r"violet\s*"), "created last.txt"),
        ),
        ".*(last|violet).*",
    ),
    Task(
        "Search for the text api_key_old and then show me the file it is in.",
        (
            (case("", "grep_content", HERE, pattern=".*api_key_old.*"), "conf/keys.ini:2: api_key_old = 17"),
            (
                case("", "readFile", {"limit": ".*", "offset": ".*"}, path=r"conf/keys\.ini"),
                "1: [keys]\n2: api_key_old = 17",
            ),
        ),
        ".*17.*",
    ),
    Task(
        "Find out which branch git is on and write its name to branch.txt.",
        (
            (
                case("", "run", command="git (branch|status|rev-parse|symbolic-ref).*"),
                "exit code 0\nwinter-sale",
            ),
            (case("", "writeNewFile", path=r"branch\.txt", content=r"winter-sale\s*"), "created branch.txt"),
        ),
        ".*(branch|winter).*",
    ),
    Task(
        "What port does server.yml set? If the file is missing look in config/server.yml.",
        (
            (case("", "readFile", path=r"server\.yml"), "!server.yml does not exist."),
            (case("", "readFile", path=r"config/server\.yml"), "1: port: 7070"),
        ),
        ".*7070.*",
    ),
    Task(
        "See what is in the folder letters and delete the file that ends in .tmp.",
        (
            (case("", "list_directory", path="letters/?"), "anna.txt\ndraft.tmp\npeter.txt"),
            (case("", "removeFile", path=r"letters/draft\.tmp"), "removed letters/draft.tmp"),
        ),
        ".*draft.*",
    ),
    Task(
        "Run the tests and write the number of failures to failures.txt.",
        (
            (case("", "run", command=".*test.*"), "exit code 1\n3 failed, 20 passed"),
            (case("", "writeNewFile", path=r"failures\.txt", content=r"3\D*"), "created failures.txt"),
        ),
        ".*3.*",
    ),
    Task(
        "Read greeting.py and translate the German text in it to English.",
        (
            (case("", "readFile", path=r"greeting\.py"), '1: print("Guten Morgen")'),
            (
                case(
                    "", "updateFile", path=r"greeting\.py", old=".*Guten Morgen.*", new=".*Good [Mm]orning.*"
                ),
                "updated greeting.py",
            ),
        ),
        ".*",
    ),
    Task(
        "Put the appointment 'Dentist' into my calendar for 2026-12-03.",
        (
            (
                case("", "list_tools", query=".*(calendar|appointment|event).*"),
                CALENDAR_FOUND,
            ),
            (case("", "get_tool_schemas", names=r".*calendar_add.*"), ""),
            (case("", "calendar_add", title="Dentist", date="2026-12-03"), "added"),
        ),
        ".*(Dentist|appointment|calendar).*",
        CALENDAR,
    ),
)
