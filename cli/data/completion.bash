_rotary() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words= places= options= given
  if [ "$word" = = ]; then
    word=
  elif [ "$before" = = ]; then
    before=${COMP_WORDS[COMP_CWORD-2]}
  fi
  case "$COMP_CWORD ${COMP_WORDS[1]} $before" in
    1\ *) places='@COMMANDS@ help version @OPTIONS@' options='@OPTIONS@' ;;
    *' help help') words='@COMMANDS@' ;;
@CASES@  esac
  for given in "${COMP_WORDS[@]:2:$((COMP_CWORD > 2 ? COMP_CWORD - 2 : 0))}"; do
    case " $places " in *" $given "*) places= ;; esac
  done
  case "$word" in
    -*) words=${words:-$options} ;;
    *) words=${words:-$places} ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _rotary rotary
