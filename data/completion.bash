_rotary() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
  local options= words= value=none given
  COMPREPLY=()
  if [ "$word" = = ]; then
    word=
  elif [ "$before" = = ]; then
    before=${COMP_WORDS[COMP_CWORD-2]}
  fi
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '@COMMANDS@ help version @OPTIONS@' -- "$word"))
    return
  fi
  case "$command $before" in
    'help help') value='@COMMANDS@' ;;
@VALUES@  esac
  case "$command" in
@CASES@  esac
  case "$value" in
    none) ;;
    *) COMPREPLY=($(compgen -W "$value" -- "$word")); return ;;
  esac
  for given in "${COMP_WORDS[@]:2:$((COMP_CWORD-2))}"; do
    case " $words " in *" $given "*) words= ;; esac
  done
  case "$word" in
    -*) words=$options ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _rotary rotary
