"""A third set of prompts and tasks for the embedded model, looked at once, when its prompt was finished."""

from __future__ import annotations

from bench.local_cases import HERE, TEXT, Task, case, spec

WEATHER = spec("weather_forecast", "Get the weather forecast of a town.", {"town": TEXT})
WEATHER_FOUND = (
    '{"results":[{"query":"weather","tools":['
    '{"name":"weather_forecast","description":"Get the weather forecast of a town."},'
    '{"name":"weather_history","description":"Get the weather of a day in the past."}]}]}'
)
SLICE = {"limit": ".*", "offset": ".*"}

HELD_OUT_CASES = (
    case(
        "cat recipes/soup.md", "readFile|run", {"command": r"cat recipes/soup\.md"}, path=r"recipes/soup\.md"
    ),
    case(
        "What is the e-mail address in contact.html?",
        "readFile|grep_content",
        {"pattern": ".*"},
        path=r"contact\.html",
    ),
    case(
        "I want to see lines 100 to 110 of server.log.",
        "readFile",
        path=r"server\.log",
        offset="100|99",
        limit="1[01]",
    ),
    case("Is there a bug in lib/queue.js?", "readFile", path=r"lib/queue\.js"),
    case(
        "Tell me in two sentences what thesis/abstract.txt is about.",
        "readFile",
        path=r"thesis/abstract\.txt",
    ),
    case("What do I have in the folder photos/2024?", "list_directory", path="(./)?photos/2024/?"),
    case("Is there anything in the directory tmp?", "list_directory", path="(./)?tmp/?"),
    case(
        "Note 'call the plumber' in the new file tasks.txt.",
        "writeNewFile",
        path=r"tasks\.txt",
        content=r"(?i)call the plumber\.?\s*",
    ),
    case(
        "I need a file .gitignore with the one line *.pyc in it.",
        "writeNewFile",
        path=r"\.gitignore",
        content=r"\*\.pyc\s*",
    ),
    case(
        "Write a Python script double.py that prints 2 times 21.",
        "writeNewFile",
        path=r"double\.py",
        content=r"(?s).*print\(.*(2 ?\* ?21|21 ?\* ?2|42|result|x|a|n).*\)\s*",
    ),
    case(
        "Set timeout = 60 where it says timeout = 30 in client.toml.",
        "updateFile",
        path=r"client\.toml",
        old="timeout = 30",
        new="timeout = 60",
    ),
    case(
        "The word 'Acme' in brochure.md must become 'Globex'.",
        "updateFile",
        path=r"brochure\.md",
        old="Acme",
        new="Globex",
    ),
    case(
        "Correct 'teh' to 'the' in essay.txt please.", "updateFile", path=r"essay\.txt", old="teh", new="the"
    ),
    case(
        "In which file is the constant MAX_RETRIES defined?",
        "grep_content",
        {**HERE, "max_results": r"\d+"},
        pattern=".*MAX_RETRIES.*",
    ),
    case(
        "Does anything below the folder lib use the word deprecated?",
        "grep_content",
        {"max_results": r"\d+"},
        pattern=".*deprecated.*",
        path="lib/?",
    ),
    case(
        "Are there any .png files in this project?",
        "glob_files",
        {"root": r"\.?/?"},
        pattern=r"(\*\*/)?\*\.png",
    ),
    case("Get rid of junk.tmp.", "removeFile", path=r"junk\.tmp"),
    case(
        "Put the file invoice.pdf into the folder archive.",
        "moveFile",
        source_path=r"invoice\.pdf",
        destination_path=r"archive/?(invoice\.pdf)?",
    ),
    case("Commit everything with the message 'Fix login'.", "run", command=r"(?s).*git commit.*Fix login.*"),
    case("Which processes use the most memory?", "run", command="(ps|top).*"),
    case(
        "Plan my week: Monday cleaning, Tuesday shopping, Wednesday rest.",
        "createPlan",
        title=".*",
        steps=".*",
    ),
    case("Order a pizza for tonight.", "list_tools", query=".*(pizza|order|food).*"),
    case("Post 'We are live' in the team's chat.", "list_tools", query=".*(chat|message|post).*"),
    case("Who was the first person on the moon?", ""),
)

HELD_OUT_TASKS = (
    Task(
        "Read scores.txt and write the highest score to best.txt.",
        (
            (case("", "readFile", SLICE, path=r"scores\.txt"), "1: 14\n2: 52\n3: 37"),
            (case("", "writeNewFile", path=r"best\.txt", content=r"52\s*"), "created best.txt"),
        ),
        ".*(52|best).*",
    ),
    Task(
        "Which file contains the word passport? Show me that file.",
        (
            (case("", "grep_content", HERE, pattern=".*passport.*"), "trip/list.md:4: passport, tickets"),
            (
                case("", "readFile", SLICE, path=r"trip/list\.md"),
                "1: # Trip\n2: \n3: Pack:\n4: passport, tickets",
            ),
        ),
        "(?s).*(passport|ickets).*",
    ),
    Task(
        "Look up the current directory's path with pwd and save it in where.txt.",
        (
            (case("", "run", command="pwd"), "exit code 0\n/home/lena/garden"),
            (
                case("", "writeNewFile", path=r"where\.txt", content=r"/home/lena/garden\s*"),
                "created where.txt",
            ),
        ),
        ".*(where|garden).*",
    ),
    Task(
        "Who is the author according to AUTHORS? If it does not exist, see package.json.",
        (
            (case("", "readFile", path="AUTHORS"), "!AUTHORS does not exist."),
            (case("", "readFile", path=r"package\.json"), '1: {\n2:   "author": "Ines Maas"\n3: }'),
        ),
        ".*Ines Maas.*",
    ),
    Task(
        "List the folder music and rename the only .wav file in it to song.wav, in the same folder.",
        (
            (case("", "list_directory", path="music/?"), "cover.jpg\ntake3.wav"),
            (
                case("", "moveFile", source_path=r"music/take3\.wav", destination_path=r"music/song\.wav"),
                "moved",
            ),
        ),
        ".*song.*",
    ),
    Task(
        "Count the lines of data.csv with wc and put the number into count.txt.",
        (
            (case("", "run", command=r"wc.*data\.csv.*"), "exit code 0\n418 data.csv"),
            (case("", "writeNewFile", path=r"count\.txt", content=r"418\s*"), "created count.txt"),
        ),
        ".*(418|count).*",
    ),
    Task(
        "Open add.py, find the mistake in the function and fix it.",
        (
            (case("", "readFile", path=r"add\.py"), "1: def add(a, b):\n2:     return a - b"),
            (
                case("", "updateFile", path=r"add\.py", old=".*a - b.*", new=r"(?s).*a \+ b.*"),
                "updated add.py",
            ),
        ),
        ".*",
    ),
    Task(
        "What will the weather be in Lisbon tomorrow?",
        (
            (case("", "list_tools", query=".*(weather|forecast).*"), WEATHER_FOUND),
            (case("", "get_tool_schemas", names=r".*weather_forecast.*"), ""),
            (case("", "weather_forecast", town="Lisbon"), "Tomorrow: rain, 14 degrees"),
        ),
        ".*(rain|14).*",
        WEATHER,
    ),
)
