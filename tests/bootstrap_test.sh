#!/usr/bin/env bash
# scripts/bootstrap on a machine that lacks packages, played by a dpkg-query and an apt-get of our own.
set -eu
cd "$(dirname "$0")/.."
box=$(mktemp -d)
trap 'rm -rf "$box"' EXIT
complain() { echo "bootstrap_test: $*" >&2; exit 1; }

# Knows the packages named in $box/installed, fails like the real one when asked for another.
cat >"$box/dpkg-query" <<'S'
#!/usr/bin/env bash
box=$(dirname "$0"); status=0
shift 3
for package in "$@"; do
    if grep -qx "$package" "$box/installed"; then printf 'installed=%s ' "$package"; else status=1; fi
done
exit $status
S
cat >"$box/apt-get" <<'S'
#!/usr/bin/env bash
box=$(dirname "$0")
[ "$1" = update ] && exit 0
for word in "$@"; do [ "$word" = ccache ] && [ -e "$box/no-ccache" ] || echo "$word" >>"$box/installed"; done
S
printf '#!/usr/bin/env bash\nexec "$@"\n' >"$box/sudo"
chmod +x "$box"/*
bootstrap() { PATH="$box:$PATH" scripts/bootstrap "$@" 2>&1; }

printf 'g++\ngit\n' >"$box/installed"
said=$(bootstrap build) || complain "fails where packages are missing: $said"
[[ $said == "installing: cmake "*" ccache "* ]] || complain "does not say what it installs: $said"
grep -qx librapidcheck-dev "$box/installed" || complain "did not install what was missing"
said=$(bootstrap build) && [ -z "$said" ] || complain "is not silent when all is there: $said"

touch "$box/no-ccache"
grep -vx ccache "$box/installed" >"$box/fewer" && mv "$box/fewer" "$box/installed"
said=$(bootstrap build) && complain "succeeds where a package cannot be had"
[[ $said == *"not installed: ccache."* ]] || complain "does not name what cannot be had: $said"

said=$(bootstrap kitchen) && complain "takes a part that is not there"
[[ $said == *"no part named kitchen"* ]] || complain "does not name the wrong part: $said"
echo "bootstrap_test: passed"
