# Reads splits and reasons from the version on the command line, or from the newest version of the OUT
# there. `compgen -W` would run a `$(command)` among its words, and Enter one that is completed: a
# stranger's version is only asked for names as we write them.
_uttermill_in_version() {
  local word file
  for word in "${COMP_WORDS[@]:2}"; do
    for file in "$word/dataset.json" "$word/datasets/latest/dataset.json"; do
      [ -f "$file" ] && {
        grep -oE -- "$1" "$file" | cut -d '"' -f "$2" | grep -xE '[[:alnum:]_.-]+' | sort -u
        return
      }
    done
  done
}
_uttermill_splits() {
  local found=$(_uttermill_in_version '"split": *"[^"]+"' 4)
  compgen -W "${found:-$_uttermill_known_splits}" -- "$1"
}
_uttermill_reasons() {
  local found=$(_uttermill_in_version '"(shard|filter|resample|transcribe|package)\.[^"]+"' 2)
  compgen -W "${found:-$_uttermill_known_reasons}" -- "$1"
}
# No space after `package.seed=`, so that the value can follow. Where nothing matches, as for names in
# quotes, bash completes a path.
_uttermill() {
  _shtab_uttermill
  [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
  return 0
}
complete -o bashdefault -o default -F _uttermill uttermill
