$ ett list
  architectures  ...
...
  operators      ...
...

A kind's count is the number of its names, in text and in JSON.
$ ett list | awk '$1 == "examples" { print $2 }' > n; ett list examples --quiet | grep -c . | cmp - n; ett list --csv | sed -n 's/^examples,//p' | cmp - n; ett list --json | head -4
[
  {
    "count": ...,
    "kind": "architectures"

$ ett list operators
...
  gelu ...Gaussian error linear unit...
...

$ ett list --quiet operators | grep -x rms_norm
rms_norm

# A file beside the script, or under ETT_PATH, is found by its name; one that cannot be loaded is said to be so.

$ mkdir -p mine/operators; echo 'return { name = "relu2", summary = "squared ReLU", aliases = { "sq" } }' > mine/operators/relu2.lua; echo 'x =' > mine/operators/broken.lua; ETT_PATH=$PWD/mine ett list operators | grep -E 'relu2|broken'
  broken ...cannot be loaded: ...broken.lua:2: unexpected symbol near <eof>
  relu2 ...squared ReLU (also sq)

$ ett show-example nonsense
ett: show-example: no example 'nonsense'...
?2

$ ett show-example own_operator | tail -n 1
ett: note: this example needs the other files of its folder: cp -r '...examples/own_operator' .
...

$ ett show-example planning | head -1; ett show-example planning/best_plan | grep -c '^. ett'; ett list-examples | grep -o '^  planning .*'; ett show-example own_operator/relu2 | head -1; ett show-example ../examples/planning/best_plan.md
# Planning questions
1
  planning...Planning questions
...
ett: show-example: no example '../examples/planning/best_plan.md'; `ett list-examples` lists them
?2

$ ett show-example
ett: show-example: expected one NAME; `ett list-examples` lists them
?2

$ ett list-examples x
ett: list-examples: takes no arguments, got 'x'
?2
