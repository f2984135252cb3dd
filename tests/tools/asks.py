"""What people ask a coding agent for, and which of its own tools serve."""

from __future__ import annotations

COMMON = """
create a file: writeNewFile
create a new file called notes.txt: writeNewFile
write a file: writeNewFile updateFile
save this text to disk: writeNewFile updateFile
make a new python script: writeNewFile
read a file: readFile
show me the contents of main.py: readFile
open the config file: readFile
edit a file: updateFile multiFileEdit
change a line in a file: updateFile multiFileEdit
append a line to the log: updateFile
insert text after line 10: updateFile
overwrite a file: updateFile writeNewFile
delete a file: removeFile
remove old.txt: removeFile
rename a file: moveFile
move a file to another folder: moveFile
copy a file: copyFile
duplicate a file: copyFile
make a directory: createDirectory
create a folder: createDirectory
list files in a directory: list_directory
what files are here: list_directory glob_files
find files by name: glob_files
find all python files: glob_files
search for text in files: grep_content
where is parse_config used: lsp_find_references grep_content ast_search
search the code for a function: grep_content ast_search lsp_workspace_symbols
replace a word in all files: findAndReplace
rename a variable everywhere: lsp_rename_symbol findAndReplace
undo my last edit: undoFileChange
revert a change to a file: undoFileChange restoreFile
apply this patch: apply_patch
how large is a file: get_file_info list_directory
when was this file last modified: get_file_info
run a command: run
run a shell command: run shell_spawn
execute a bash script: run
run the tests: run
install a package with pip: run
start a server in the background: start_background
stop a background task: stop_background
which processes are running: process_list
what is using port 8080: port_list
show the git log: git_log
show uncommitted changes: git_status git_diff
what changed since the last commit: git_diff git_status git_log
who wrote this line: git_blame
show a commit: git_show
search the web: web_search
google something: web_search
download a web page: fetch_url
read the documentation at this URL: fetch_url
call a REST API: http_request
send a POST request: fetch_url_post http_request
query a sqlite database: sqlite_query
what tables are in the database: sqlite_schema
insert a row into a table: sqlite_execute
read a csv file: csv_describe csv_query readFile
get a value out of a JSON file: json_query
validate a yaml file: json_validate
unzip an archive: archive_extract
zip a folder: archive_create
look into a tar file: archive_list
calculate a percentage: calculate
what time is it: date_time
how many days until Christmas: date_time
ask the user a question: request_clarification
make a plan: createPlan
mark a step as done: setStepStatus
remember this for later: store_memory
what do you remember about this project: retrieve_memories list_memory_tags
look at a screenshot: viewImage
run python code: notebook_execute run
plot a chart: notebook_execute
go to the definition of a function: lsp_goto_definition
check the code for errors: lsp_get_diagnostics
start a python REPL: shell_spawn notebook_create
fill in a template: renderTemplate
am I allowed to run this: askPermission
which operating system is this: get_environment
"""
"""The ordinary words."""

OTHER = """
put these paragraphs into a brand-new document: writeNewFile
let me see what the source says between rows 10 and 40: readFile
scrap the obsolete draft: removeFile
give the report a different title on disk: moveFile
which subfolders sit beneath this one: list_directory glob_files
hunt down every occurrence of a phrase: grep_content findAndReplace
take back what I just did: undoFileChange
bring back yesterday's contents: restoreFile listBackups
squeeze these documents into something small to mail: archive_create
unpack the tarball: archive_extract
whom do I blame for that bug: git_blame git_log
recent history of the repository: git_log
am I on the main branch: git_status
what does the internet say about it: web_search
grab the article behind this link: fetch_url
submit the web form: fetch_url_post http_request
talk to an HTTP endpoint: http_request
how many customers are in the DB: sqlite_query
add a record to the customers: sqlite_execute
average of the third column in the spreadsheet: csv_query csv_describe
does this config obey its schema: json_validate
pull one field out of nested settings: json_query
what is 17 percent of 2340: calculate
current hour in Tokyo: date_time
kill the job that runs since morning: stop_background
is the long build finished yet: check_background
what did the job print: get_background_output
why is my laptop so slow, what eats the CPU: process_list
who listens on 5432: port_list
debug it step by step with pdb: shell_spawn
type yes at the prompt: shell_input
is anything wrong with the types in here: lsp_get_diagnostics
what kind of value is this expression: lsp_hover
give that method a better name across the project: lsp_rename_symbol findAndReplace
overview of the classes of a module: lsp_document_symbols
draw a histogram of the data: notebook_execute
forget all variables and begin afresh: notebook_reset
which house rules apply here: listReferences selectReferences
keep in mind that we deploy on Fridays: store_memory
what have I told you before: retrieve_memories list_memory_tags
unclear, I'd better check with the human first: request_clarification
break the work into stages: createPlan addStep
what is left to do: getPlanStatus
would I be stopped from doing that: askPermission
what does the picture show: viewImage
which servers of tools are connected: mcp_servers
tidy the imports automatically: lsp_get_code_actions
"""
"""The same needs in other words; few of them are in the tools' descriptions."""


def pairs(text: str) -> list[tuple[str, set[str]]]:
    """Each request with the tools that serve it."""
    lines = (line.rpartition(": ") for line in text.strip().splitlines())
    return [(request, set(names.split())) for request, _, names in lines]
