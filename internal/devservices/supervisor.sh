# Keeps one service and its folder for a parent process. Arguments: the mktemp pattern of the folder, and the script
# that ends the service. The first line printed is the folder. Then each line read is "<number> <command>"; the
# command's output goes to the file "out" and the answer is "<number> <exit status>".
#
# The parent holds the other end of standard input. End of file therefore means that the parent has closed it or is
# dead, by whatever signal, and that is when the service ends and the folder goes. Nothing is lost between two
# commands: a parent that dies while a command runs is noticed right after it.

# A terminal's or a service manager's signals go to every process; this one has to survive them to clean up. Writing
# an answer to a dead parent must not kill it either. Commands get the signals' default actions back, or a service
# would inherit that it ignores them.
trap '' HUP INT TERM PIPE

dir=$(mktemp -d "$1") && cd "$dir" || exit 1
echo "$dir"
exec 2>/dev/null

while IFS= read -r line; do
	(trap - HUP INT TERM PIPE; eval "${line#* }") </dev/null >out 2>&1
	echo "${line%% *} $?"
done

(trap - HUP INT TERM PIPE; eval "$2") </dev/null >/dev/null 2>&1
cd /
# A process killed a moment ago may still write into the folder.
rm -rf "$dir" || { sleep 1; rm -rf "$dir"; }
