#!/bin/sh
# A summary of your notes, every day: `hermes -q` in a script, with its exit codes.
#
# -Q leaves only the answer on standard output. What is piped in follows the question. Exit codes:
# 0 answered, 1 no answer, 2 something to put right, 130 interrupted. A day that has its summary is
# left alone, and a summary that failed leaves no file, so it may be run as often as you like.
#
# Run it: sh examples/daily_summary.sh notes.txt summaries
# In a crontab (crontab -e), every hour until there is one:
#   PATH=/usr/bin:/bin:/home/ada/.venv/bin
#   0 * * * *  sh /home/ada/daily_summary.sh /home/ada/notes.txt /home/ada/summaries

if [ $# -ne 2 ] || [ ! -r "$1" ]; then
    echo "usage: daily_summary.sh NOTES FOLDER   (NOTES is a file that can be read)" >&2
    exit 2
fi
notes=$1
summary=$2/$(date +%Y-%m-%d).md

[ -e "$summary" ] && exit 0
mkdir -p "$2" || exit 2
hermes -Q -q "Sum up these notes in five points." <"$notes" >"$summary.part"
code=$?
case $code in
0) mv "$summary.part" "$summary" ;;
1) echo "No summary today: the model did not answer. The next run tries again." >&2 ;;
2) echo "No summary: see above what is to be put right, or run: hermes doctor" >&2 ;;
*) echo "The summary was interrupted." >&2 ;;
esac
rm -f "$summary.part"
exit $code
