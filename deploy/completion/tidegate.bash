# tidegate.bash - completion of the tidegate command line for bash.
#
# Install as /usr/share/bash-completion/completions/tidegate, or source it from ~/.bashrc.
# It asks no node: words, flags and their fixed values only.

_tidegate_flags() {
    local common="-e --endpoint -o --output --timeout -h --help --version"
    local target="--key --rate --burst --algorithm"
    case "$1" in
    check | peek | lease) echo "$common $target --cost --at-most --repeat --explain" ;;
    hit | refund) echo "$common $target --cost --repeat --explain" ;;
    reset) echo "$common $target --repeat --explain" ;;
    release | renew) echo "$common $target --lease --used" ;;
    "rules explain") echo "$common --rules" ;;
    "pools report") echo "$common --load" ;;
    "pools set") echo "$common --rate --load-max --reserve --scope --home --dry-run --yes --note --author" ;;
    owner) echo "$common $target" ;;
    status) echo "$common --watch --wait --members --regions --node --all" ;;
    members) echo "$common --watch --all" ;;
    ring) echo "$common --watch" ;;
    drain | leave) echo "$common --no-wait" ;;
    remove) echo "$common --force --region --no-wait" ;;
    replay)
        echo "$common --rules --format --map --set --time-field --cost-field --proxies --reorder --spread --top --suggest"
        ;;
    "rules show") echo "$common --of-version" ;;
    "rules apply" | "rules delete" | "rules rollback") echo "$common --dry-run --yes --note --author" ;;
    block) echo "$common --key --for --until --reason --yes --author" ;;
    unblock) echo "$common --key --author" ;;
    "apikey create") echo "$common --name --owner --tier --limit --burst --for --until --note --author" ;;
    "apikey list") echo "$common --owner --after" ;;
    "apikey revoke") echo "$common --note --author" ;;
    "apikey delete") echo "$common --force --note --author" ;;
    "quota set")
        echo "$common --tier --limit --burst --block --for --until --unblock --notes --clear --dry-run --note --author"
        ;;
    "quota list") echo "$common --after" ;;
    "quota delete") echo "$common --note --author" ;;
    *) echo "$common" ;;
    esac
}

_tidegate() {
    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD - 1]}"
    local commands="check peek hit refund reset lease release renew status members ring owner rules block unblock blocks apikey quota pools drain leave remove replay version help"
    local command="" subcommand="" word i
    COMPREPLY=()

    # The first two words that are neither flags nor values of flags.
    for ((i = 1; i < COMP_CWORD; i++)); do
        word="${COMP_WORDS[i]}"
        case "$word" in
        -e | --endpoint | -o | --output | --timeout | --wait | --members | --node | --key | --rate | --burst | --algorithm | --cost | --repeat | --lease | --used | \
            --rules | --format | --map | --set | --time-field | --cost-field | --proxies | --reorder | --top | --suggest | \
            --load | --load-max | --reserve | --note | --author | --of-version | --for | --until | --reason | --name | --owner | --tier | --limit | --block | --notes | --after)
            ((i++))
            ;;
        -*) ;;
        *)
            if [ -z "$command" ]; then
                command="$word"
            elif [ -z "$subcommand" ]; then
                subcommand="$word"
            fi
            ;;
        esac
    done

    case "$previous" in
    -o | --output)
        mapfile -t COMPREPLY < <(compgen -W "table json yaml" -- "$current")
        return
        ;;
    --algorithm)
        mapfile -t COMPREPLY < <(compgen -W "token_bucket leaky_bucket fixed_window sliding_window sliding_buckets sliding_log concurrency" -- "$current")
        return
        ;;
    --scope)
        mapfile -t COMPREPLY < <(compgen -W "region global" -- "$current")
        return
        ;;
    --wait)
        mapfile -t COMPREPLY < <(compgen -W "healthy" -- "$current")
        return
        ;;
    -e | --endpoint)
        mapfile -t COMPREPLY < <(compgen -W "tcp://127.0.0.1:7600" -- "$current")
        return
        ;;
    --format)
        mapfile -t COMPREPLY < <(compgen -W "auto combined xff json" -- "$current")
        return
        ;;
    --rules)
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    --timeout | --members | --node | --key | --rate | --burst | --cost | --repeat | --lease | --used | \
        --map | --set | --time-field | --cost-field | --proxies | --reorder | --top | --suggest | \
        --load | --note | --author | --of-version | --for | --until | --reason | --name | --owner | --tier | --limit | --block | --notes | --after)
        return
        ;;
    esac

    local flags_of="$command"
    if [ "$command" = rules ] || [ "$command" = pools ] || [ "$command" = apikey ] || [ "$command" = quota ]; then
        flags_of="$command $subcommand"
    fi
    if [[ "$current" == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_tidegate_flags "$flags_of")" -- "$current")
    elif [ -z "$command" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
    elif [ "$command" = help ] && [ -z "$subcommand" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
    elif [ "$command" = rules ] && [ -z "$subcommand" ] || [ "$command $subcommand" = "help rules" ]; then
        mapfile -t COMPREPLY < <(compgen -W "list show validate explain diff apply delete history rollback" -- "$current")
    elif [ "$command" = pools ] && [ -z "$subcommand" ] || [ "$command $subcommand" = "help pools" ]; then
        mapfile -t COMPREPLY < <(compgen -W "list set report" -- "$current")
    elif [ "$command" = apikey ] && [ -z "$subcommand" ] || [ "$command $subcommand" = "help apikey" ]; then
        mapfile -t COMPREPLY < <(compgen -W "create list show revoke delete" -- "$current")
    elif [ "$command" = quota ] && [ -z "$subcommand" ] || [ "$command $subcommand" = "help quota" ]; then
        mapfile -t COMPREPLY < <(compgen -W "set show list delete reset" -- "$current")
    elif [[ "$command $subcommand" == "rules "@(validate|diff|apply) || "$command" = replay ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
}

complete -F _tidegate tidegate
