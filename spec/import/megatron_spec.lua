--- Launch flags of Megatron-LM and YAML of NeMo as plans: read fields, notes, and the export back to flags.
local architecture = require "ett.model.architecture"
local blocks = require "ett.model.blocks"
local command = require "command"
local estimate = require "ett.step.estimate"
local export = require "ett.import.export"
local json = require "ett.json"
local megatron = require "ett.import.megatron"
local model_module = require "ett.model"
local raised = require "raised"
local random_plans = require "random_plans"
local script = require "ett.import.megatron.script"

-- The plan and the model of a file. Its note on settings that the file leaves out is moved to the field `missing`: most
-- files here are as short as they can be.
local function read(text, plan, hyper, ending)
  local path = os.tmpname() .. (ending or "")
  require("ett.base.folder").write(path, text)
  local ok, answer = pcall(megatron.read, path, plan, hyper)
  os.remove(path)
  if not ok then error((tostring(answer):gsub("/tmp/[%w_%.]+", "FILE")), 0) end
  local notes = answer.model.notes
  for i = #notes, 1, -1 do
    if notes[i]:find "^not in the file" then answer.missing = table.remove(notes, i) end
  end
  return answer
end

local function message(...) return raised(read, ...) end

local small = "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --vocab-size 1000 --seq-length 128 "
  .. "--max-position-embeddings 128 "

-- The text and the settings that are not stated, of a plan of a model.
local function export_of(plan, name, hyper)
  local model = model_module.new(name or "llama3-8b", hyper)
  plan.seq, plan.micro_batches = plan.seq or 2048, plan.micro_batches or 4
  local e = estimate.new { model = model, cluster = "dgx_h100", plan = plan }
  return export.text("megatron", model, e.plan)
end

describe("flags of a script", function()
  local function flags(text)
    local words = {}
    for i, flag in ipairs(script.flags(text)) do words[i] = flag.name .. "=" .. table.concat(flag.values, ",") end
    return table.concat(words, " ")
  end

  it("are expanded as in a shell", function()
    local wanted = "num-layers=32 hidden-size=4096 nnodes=4,x.py seq-length=2048 save=$1 split=9,1 bf16= x=$HOME"
    assert.equal(wanted, flags [=[
#!/bin/bash
export LAYERS=32   # a comment
WIDTH=$((1024*4)); NODES=${SLURM_NNODES:-4}
ARGS=(
    --num-layers $LAYERS \
    --hidden-size "${WIDTH}"
    # --swiglu
)
torchrun --nnodes ${NODES} x.py ${ARGS[@]} --seq_length=$((LAYERS * 64)) --save $1 --split 9 1 --bf16 --x '$HOME']=])
  end)

  it("are also fields of sections behind a recipe", function()
    local model_of = function() return model_module.new "llama3-8b" end
    local function plan_of(text, given, hyper)
      local path = os.tmpname()
      command.write(path:match "^(.*)/", path:match "[^/]*$", text)
      local model = model_of()
      local plan = megatron.read(path, given, hyper, model).plan
      os.remove(path)
      return plan, table.concat(model.notes, "\n")
    end
    local bridge = "TP=4\nsrun hostname\ntorchrun --nnodes=2 --nproc_per_node=8 run.py --recipe llama3_8b "
      .. "model.tensor_model_parallel_size=${TP} model.sequence_parallel=true train.micro_batch_size=2 optimizer.lr=1 "
      .. "'dataset.sequence_length=4096' ++train.global_batch_size=128 ddp.use_distributed_optimizer=True%s"
    local p, notes = plan_of(bridge:format "")
    assert.same({ 4, 4, 2, 4096, 128, 1, true, "bf16" }, { p.tp, p.dp, p.micro_batch, p.seq, p.global_batch, p.zero,
      p.sequence_parallel, p.dtype })
    assert.matches("the file does not hold the recipe's own settings: bf16 and Megatron-LM's defaults", notes, 1, true)
    assert.is_nil(notes:find("unknown", 1, true), notes)
    assert.equal("fp8", plan_of(bridge:format " mixed_precision=bf16_with_fp8_current_scaling_mixed").dtype)
    assert.equal(2, plan_of(bridge:format " model.tensor_model_parallel_size=2").tp) -- the last counts
    p = plan_of("nemo llm pretrain --factory llama3_8b trainer.devices=8 trainer.num_nodes=4 data.global_batch_size=64 "
      .. "data.seq_length=2048 trainer.strategy.tensor_model_parallel_size=2 trainer.plugins.precision=16 peft=lora")
    assert.same({ 2, 16, 64, 2048, "fp16", 32 }, { p.tp, p.dp, p.global_batch, p.seq, p.dtype, p.lora_rank })
    assert.equal(16, plan_of(bridge:format " peft=lora peft.dim=16").lora_rank)
    assert.equal(32, plan_of(bridge:format " peft.dim=16 peft=lora").lora_rank) -- as in NeMo-Run: one after the other
    p, notes = plan_of(bridge:format " peft.dim=16")
    assert.is_nil(p.lora_rank)
    assert.matches("not modelled: --peft", notes, 1, true)
    for precision, dtype in pairs { ["trainer.precision=32"] = "fp32", ["trainer.precision=16-mixed"] = "fp16",
      ["mixed_precision.bf16=false"] = "fp32", ["mixed_precision=bf16_mixed"] = "bf16" } do
      p, notes = plan_of(bridge:format(" " .. precision))
      assert.equal(dtype, p.dtype, precision)
      assert.matches("the recipe's own settings: Megatron-LM's defaults stand", notes, 1, true)
    end
    assert.equal(8, plan_of(bridge:format "", { tp = 8 }).tp)
    assert.is_nil(select(2, plan_of(bridge:format "", nil, { layers = 8 })):find("the model of the file", 1, true))
    assert.matches("the model of the file is not used", select(2, plan_of(small .. "--nproc-per-node 1")), 1, true)
    -- NeMo 1 states the whole model.
    local run = read("python megatron_gpt_pretraining.py --config-name=x trainer.devices=4 model.num_layers=4 "
      .. "model.hidden_size=256 model.num_attention_heads=4 model.encoder_seq_length=128 model.vocab_size=1000 a=1 "
      .. "actor.model.num_layers=9", nil, nil)
    assert.same({ 4, 4 }, { run.model.hyper.layers, run.plan.dp })
    assert.equal("FILE: missing --num-layers, --hidden-size, --num-attention-heads; a recipe holds them: give its "
      .. "model, --model NAME", message "run.py --recipe x model.seq_length=8")
  end)

  it("are fields of sections only where the training command gets them", function()
    local _, _, note, fields = script.flags [=[
OVR=(model.tensor_model_parallel_size=4 train.global_batch_size=128)
OLD=(model.context_parallel_size=2)
python tools/convert.py model.path=/x
srun python run_recipe.py --recipe llama3_8b "${OVR[@]}"]=]
    assert.same({ { "model.tensor_model_parallel_size", "4" }, { "train.global_batch_size", "128" } }, fields)
    assert.equal("the training command does not use the flags of OLD", note)
    local run = read("python tools/convert.py model.path=/x trainer.devices=1\ntorchrun --nproc_per_node 8 "
      .. "pretrain_gpt.py --fp16 " .. small)
    assert.same({ 8, "fp16" }, { run.plan.dp, run.plan.dtype })
    assert.is_nil(table.concat(run.model.notes, "\n"):find("recipe", 1, true))
    -- Megatron-Bridge's own scripts take fields, too.
    _, _, _, fields = script.flags "torchrun pretrain_llama3_8b.py model.tensor_model_parallel_size=1"
    assert.same({ { "model.tensor_model_parallel_size", "1" } }, fields)
  end)

  it("depend on the words of the script, if they are given", function()
    local path = os.tmpname()
    command.write(path:match "^(.*)/", path:match "[^/]*$", [=[
SIZE=$1
BATCH=$2
PR=${3:-bf16}
TP=${10}
if [ $SIZE = 0.5B ]; then
  LAYERS=24; HIDDEN=896; HEADS=14
elif [ $SIZE = 7B ]; then
  LAYERS=28; HIDDEN=3584; HEADS=28
fi
if [ $TP -gt 1 ]; then MORE=" --sequence-parallel"; fi
torchrun --nproc_per_node 8 pretrain_qwen.py --num-layers $LAYERS --hidden-size ${HIDDEN} --num-attention-heads $HEADS \
  --vocab-size 1000 --seq-length 2048 --micro-batch-size $BATCH --tensor-model-parallel-size ${TP} --$PR ${MORE}
]=])
    local function of(own) return pcall(megatron.read, path .. own) end
    local _, large = of " 7B 2 fp16 4 5 6 7 8 9 2"
    local p, h = large.plan, large.model.hyper
    assert.same({ 28, 3584, 2, "fp16", 2, 4, true },
      { h.layers, h.hidden, p.micro_batch, p.dtype, p.tp, p.dp, p.sequence_parallel })
    local _, less = of " 0.5B 1"
    assert.equal(path .. ": --tensor-model-parallel-size: needs a value", tostring(less))
    local run = megatron.read(path, { tp = 1, micro_batch = 1 })
    assert.equal(24, run.model.hyper.layers)
    assert.matches('taken as true: [ $1 = 0.5B ]; [ ${10} -gt 1 ]. Words behind the file set $1, $2, ...: "FILE WORD',
      table.concat(run.model.notes), 1, true)
    os.remove(path)
    local _, gone = of " 7B"
    assert.equal(("cannot read '%s 7B': no such file or directory"):format(path), tostring(gone))
  end)

  it("follow shift, $@ and $#, but not into functions", function()
    local function with(text, ...)
      local list, _, note = script.flags(text, {}, { ... })
      local parts = {}
      for i, flag in ipairs(list) do parts[i] = flag.name .. "=" .. table.concat(flag.values, ",") end
      return table.concat(parts, " "), note
    end
    local text = 'MORE=\nTP=${1:-4}\nshift\nPP=$1\n[ $# -gt 2 ] && MORE=--swiglu\nx.py --tp $TP --pp $PP %s $MORE'
    for _, all in ipairs { '"$@"', "$*", '"${@}"', '"${@:1}"' } do
      assert.equal("swiglu= tp=2 pp=4,4 bf16= lr=1", with(text:format(all), "2", "4", "--bf16", "--lr", "1"), all)
    end
    assert.equal("tp=2 pp=4 bf16=", with(text:format '${@:2}', "2", "4", "--bf16"))
    assert.equal("a=3 b=", with("shift 2; x.py --a $1 --b $2", "1", "2", "3"))
    assert.equal("a= b=2", with("shift 9999999999999999999\nx.py --a $1 --b 2", "1", "2"))
    for _, head in ipairs { "run()\n{", "function run {", "run() {" } do
      assert.equal("a=$1 b=2", with(head .. "\nx.py --a $1; shift\n}\nx.py --b $1", "2"), head)
    end
    local loop = "while [ $# -gt 0 ]; do\ncase $1 in\n--tp) TP=$2; shift 2;;\n*) shift;;\nesac\ndone\ntrain.py --tp $TP"
    local wanted = "a loop of the script reads its words, and counts as if it ran once"
    assert.same({ "tp=2", wanted }, { with(loop, "--tp", "2", "--x") })
    assert.same({ "tp=2", wanted }, { with('for W in "$@"; do\necho $W\ndone\ntrain.py --tp 2', "--layers=4") })
    assert.same({ "tp=2" }, { with("for N in 1; do\ntrain.py --tp $1\ndone", "2") })
  end)

  it("may be several words of one variable", function()
    assert.equal("tp=8,4", flags 'A="8 4"\nx.py --tp $A')
    local _, _, _, fields = script.flags 'A="model.a=1 model.b=2"\nx.py $A'
    assert.same({ { "model.a", "1" }, { "model.b", "2" } }, fields)
  end)

  it("count in a line [ TEST ] && COMMAND if the test holds, and in || if it does not", function()
    local lines = [=[
FP8=0
[ "$FP8" = 1 ] && ARGS="--fp8-format hybrid"
[[ "$FP8" == 1 ]] || ARGS="$ARGS --swiglu"
[ "$FP8" -eq 0 ] && [ -n "$FP8" ] && MORE="--use-flash-attn"; OTHER="--qk-layernorm"
if [ 1 = 1 ]; then [ 1 = 2 ] && A=1; LAYERS=8; fi
[ 1 = 2 ] || echo --no
[ -d /x ]
x.py $ARGS --bf16 --layers $LAYERS]=]
    assert.equal("swiglu= use-flash-attn= qk-layernorm= bf16= layers=8", flags(lines))
    local _, unknown = script.flags "[ -f /x/y ] && ARGS='--swiglu'\nx.py $ARGS"
    assert.same({ "[ -f /x/y ]" }, unknown)
  end)

  it("may use variables that are declared, or set by their first use", function()
    assert.equal("tp=8 seq-length=4096 layers=80 bf16=", flags [=[
: "${TP:=8}"
declare -i SEQ=4096
readonly A=1 LAYERS=80
declare -a OPTS=(--tp $TP --seq-length $SEQ)
local FLAGS="--layers $LAYERS"
torchrun x.py ${OPTS[@]} $FLAGS --bf16]=])
    assert.equal("tp=4", flags [=[
if [ 1 = 2 ]; then
  : ${TP:=8}
else
  : ${TP:=4}
fi
torchrun x.py --tp $TP]=])
  end)

  it("are not in the quoted value of another flag", function()
    assert.equal("name=a test --layers 9 layers=4", flags [=[x.py --name "a test --layers 9" --layers 4]=])
  end)

  it("may be in the command line of another shell", function()
    for _, quote in ipairs { '"', "'" } do
      assert.equal("num-layers=8 mpi=pmix,bash,-c,torchrun nnodes=4,x.py tp=2 bf16=", flags(([[
export TP=2
ARGS=(--num-layers 8)
srun --mpi=pmix bash -c "torchrun --nnodes 4 x.py ${ARGS[*]} --tp $TP \
  --bf16 $@"]]):gsub('"', quote)))
    end
    assert.equal("tp=2", flags 'TP=2\nsh -c "x.py --tp \\$TP"')
  end)

  it("are those of active branches, not of messages or the script's own options", function()
    assert.equal("num-layers=61 vp=2 fp8-format=hybrid", flags [=[
VPP=2
NAME=
for arg in "$@"; do
  case $arg in
    --num-layers=*)
      LAYERS="${arg#*=}"
      ;;
  esac
done
echo "usage: $0 --num-layers N"
ARGS="--num-layers 61"
if [ $VPP -ne 1 ]; then ARGS+=" --vp $VPP"; fi
if [ $VPP -gt 4 ]; then ARGS+=" --wrong 1"; fi
if [[ -n "$NAME" ]]; then ARGS+=" --wrong 2"; fi
if [ -z "$NAME" ]; then ARGS+=" --fp8-format hybrid"; fi
torchrun x.py $ARGS]=])
  end)

  it("follow a comment that ends in a backslash", function()
    assert.equal("num-layers=2 hidden-size=64 bf16=", flags [=[
ARGS=(
  --num-layers 2 \
# --swiglu \
  --hidden-size 64 \
)
# python old.py --wrong 1 \
FP="--bf16"
x.py ${ARGS[@]} $FP]=])
  end)

  it("count under comparisons with patterns of names", function()
    assert.equal("swiglu= bf16=", flags [=[
MODEL=llama3-70b
if [[ $MODEL == llama* ]]; then ARGS="--swiglu"; fi
if [[ $MODEL == gpt* || $MODEL != *70? ]]; then ARGS="$ARGS --wrong 1"; fi
[[ "$MODEL" != gpt* ]] && ARGS="$ARGS --bf16"
x.py $ARGS]=])
    local _, unknown = script.flags 'S=7b\nif [[ $S == [0-9]b ]]; then A="--bf16"; fi\nx.py $A'
    assert.same({ "[[ 7b == [0-9]b ]]" }, unknown)
  end)

  it("may be in quoted text, on several lines, and after conditions", function()
    assert.equal("num-layers=24 swiglu= fp16= lr=1", flags [[
GPT_ARGS="
    --num-layers 24 \
    --swiglu
"
KIND=half
if [ "$KIND" = "half" ]; then
  GPT_ARGS+=" --fp16"
else
  GPT_ARGS+=" --bf16"
fi
if [ "$KIND" == whole ]; then X="--wrong 1"; elif [ "$KIND" != whole ]; then X="--lr 1"; fi
python pretrain_gpt.py $GPT_ARGS $X]])
  end)

  it("are those of the first active branch", function()
    local function chosen(first)
      return flags(("KIND=7B\nTP=2\nif %s; then\nX='--first'\nelif [ $KIND = 7B ]; then\nX='--second'\n"
        .. "else\nX='--third'\nfi\n"):format(first))
    end
    local yes, no, unknown = "[ $KIND = 7B ]", '[[ "$KIND" == 70B ]]', "[ -f file ]"
    for _, condition in ipairs { yes, unknown, yes .. " && [ $TP -gt 1 ]", no .. " || " .. yes, "[ ! $KIND = 70B ]",
      "[ -z $UNSET ]", '[[ "$KIND" = "7B" && $TP -eq 2 ]]', "[[ $TP = 3 || $TP = 2 ]]", unknown .. " || " .. no,
      "[[ $TP = 2 || $TP = 2 && $TP = 3 ]]", "! " .. no } do
      assert.equal("first=", chosen(condition), condition)
    end
    for _, condition in ipairs { no, yes .. " && " .. no, no .. " || " .. no, "[ ! $KIND = 7B ]", "[ -n ${UNSET} ]",
      '[ "$UNSET" = "1" ]', '[[ "$KIND" = "7B" && $TP -eq 3 ]]', unknown .. " && " .. no,
      "[ $TP = 2 ] || [ $TP = 2 ] && [ $TP = 3 ]", "! " .. yes, "[[ -f file && $TP = 3 || $TP = 4 ]]" } do
      assert.equal("second=", chosen(condition), condition)
    end
    local neither = "if [ 1 = 2 ]; then\nX='--first'\nelif [ 1 = 3 ]; then\nX='--second'\nelse\nX='--third'\nfi"
    assert.equal("third=", flags(neither))
  end)

  it("are those of the branch of a case that matches; an unknown word matches none", function()
    local text = [=[
case "$SIZE" in
  "800M"|tiny) LAYERS=48 ;;
  8?)
    LAYERS=56
    MORE=; if [ $LAYERS -gt 50 ]; then MORE="--bf16"; fi
    ;;
  *) LAYERS=1; echo "case (of no size)" ;;
esac
torchrun x.py $MORE --num-layers $LAYERS --swiglu]=]
    assert.equal("num-layers=48 swiglu=", flags("SIZE=tiny\n" .. text))
    assert.equal("bf16= num-layers=56 swiglu=", flags("SIZE=8B\n" .. text))
    assert.equal("num-layers=1 swiglu=", flags("SIZE=70B\n" .. text))
    assert.equal("num-layers=$LAYERS swiglu=", flags("SIZE=$1\n" .. text))
  end)

  it("are those of a variable's last value", function()
    assert.equal("bf16= lr=1", flags [[
A="--swiglu"
B="--fp16 --lr 2"
A=""
B="--bf16"
B="${B} --lr 1"
torchrun x.py $A $B]])
  end)

  it("count under unknown conditions, which are returned", function()
    local _, unknown = script.flags [=[
if [ $1 = 7B ]; then L=32; elif [ $1 = 70B ]; then L=80; fi
if [ ! -f x ]; then echo "no --file"; exit 1; fi
if [ $L -gt 40 ]; then M="--swiglu"; fi
torchrun x.py --num-layers $L]=]
    assert.same({ "[ $1 = 7B ]" }, unknown)
  end)

  it("are not in here-documents, unless these start a program of Python", function()
    assert.equal("nnodes=2,train_x.py num-layers=24 hidden-size=64 bf16=", flags [=[
usage() {
cat <<EOF
Don't run this without GPUs. Options: --layers N
EOF
}
cat <<'JSON' > ds.json
{ "it's": 1 }
JSON
LAYERS=24
srun bash <<-SCRIPT
	torchrun --nnodes 2 train_x.py --num-layers $LAYERS
	SCRIPT
cat <<< "it's"
(( N << SHIFT ))
torchrun train_y.py --hidden-size 64 --bf16]=])
    assert.equal("bf16=", flags "cat <<EOF\nx.py --bf16")
  end)

  it("are those that the training command gets, also through other variables and arrays", function()
    local text = [=[
UNUSED="--recompute-granularity full --tp-comm-overlap"
SPARE=(
  --fp8-format hybrid
)
python tools/preprocess.py --seq-length 1024 --num-layers 4
WIDTH="--hidden-size 64"
MODEL=(
  --num-layers 2
  $WIDTH
)
CMD="torchrun --nnodes 2 pretrain_gpt.py ${MODEL[@]} \$MORE"
MORE="--bf16"
mkdir -p x && eval $CMD
torchrun tools/eval.py --micro-batch-size 32 --fp16 --num-layers 4]=]
    local list, _, note = script.flags(text)
    local names = {}
    for i, flag in ipairs(list) do names[i] = flag.name .. "=" .. table.concat(flag.values, ",") end
    table.sort(names)
    assert.same({ "bf16=", "hidden-size=64", "nnodes=2,pretrain_gpt.py,${MODEL[@]},$MORE", "num-layers=2" }, names)
    assert.equal("the training command does not use the flags of UNUSED, SPARE", note)
    assert.equal("num-layers=2", flags "python a.py --bf16 && torchrun b.py --num-layers 2")
    assert.equal("num-layers=2", flags "A=0 python a.py --bf16\nB=0 train.py --num-layers 2\nB=1 python c.py --fp16")
    assert.equal("num-gpus=8 num-layers=2",
      flags "ray start --num-gpus 8\nray job submit -- python3 train.py --num-layers 2\npython eval.py --fp16")
  end)

  it("are those of all commands and variables if the training command is not clear", function()
    local unclear = "the training command of the script is not clear; the flags of all commands and variables are used"
    for text, wanted in pairs {
      ["A='--bf16'\nrun() {\ntorchrun pretrain_gpt.py --num-layers 2 $@\n}\nrun $A"] = "bf16= num-layers=2",
      ["A='--bf16'\nsource more.sh\npython train.py $MORE --num-layers 2"] = "bf16= num-layers=2",
      ["A='--bf16'\nNAME=A\npython train.py ${!NAME} --num-layers 2"] = "bf16= num-layers=2",
      ["A='--num-layers 2'\nexport A\npython train.py --bf16"] = "num-layers=2 bf16=",
      ["python a.py --num-layers 2\npython b.py --num-layers 3"] = "num-layers=2 num-layers=3",
    } do
      assert.equal(wanted, flags(text))
      local _, _, note = script.flags(text)
      if wanted ~= "num-layers=2 num-layers=3" then assert.equal(unclear, note) end
    end
    for _, text in ipairs { "A='--bf16'\nB=(--num-layers 2)", "--num-layers 2\n--bf16" } do
      local list, _, note = script.flags(text)
      assert.equal(2, #list)
      assert.is_nil(note)
    end
  end)

  it("take comparisons and conditions in arithmetic", function()
    local arithmetic = require "ett.import.megatron.arithmetic"
    for text, wanted in pairs { ["(8 > 1) ? 8 / 2 : 1"] = 4, ["1>1?1:0"] = 0, ["2 * (3 + 4) % 5 - -1"] = 5,
      ["-7 / 2"] = -3,
      ["-7 % 2"] = -1, ["1 == 1 && 2 != 2 || !0"] = 1, ["0 ? 1 : 0 ? 2 : 3"] = 3, ["8 >= 8"] = 1, ["10 - 2 - 3"] = 5,
      ["((((2))))"] = 2 } do
      assert.equal(wanted, arithmetic(text))
    end
    for _, text in ipairs { "", "1 +", "N > 1", "1 / 0", "1 ? 2", "(1", "1 & 1", "1 2", ("("):rep(1000),
      "99999999999999999999" } do
      assert.is_nil(arithmetic(text))
    end
    assert.equal("num-layers=7 bf16=", flags [=[
TP=1; X=$(( ($TP > 1) ? 1 : 0 )); Y=$(( (TP+1) * ((2)) + $(( TP + 2 )) ))
if [ $X -eq 1 ]; then A="--swiglu"; fi
torchrun x.py $A --num-layers $Y --bf16]=])
  end)

  it("are in here-documents that the script or a shell reads", function()
    assert.equal("num-layers=24 hidden-size=64 bf16=", flags [=[
read -r -d '' ARGS <<'EOF'
--num-layers 24
--hidden-size 64
EOF
torchrun x.py $ARGS --bf16]=])
    assert.equal("nnodes=2,-m,x num-layers=24",
      flags "srun bash -s <<EOF\ntorchrun --nnodes 2 -m x --num-layers 24\nEOF")
    assert.equal("bf16=", flags "read A; cat <<EOF\n--swiglu\nEOF\nsrun python - <<EOF\n'--fp16'\nEOF\nx --bf16")
  end)

  it("of a long script take time in proportion to its length", function()
    local lines, start = {}, os.clock()
    for i = 1, 10000 do lines[i] = ("V%d=%d"):format(i, i) end
    lines[10001] = "X=" .. ("A"):rep(200000) .. "\nx.py --num-layers $V7"
    assert.equal("num-layers=7", flags(table.concat(lines, "\n")))
    assert.is_true(os.clock() - start < 5, os.clock() - start)
  end)

  it("take the list of layers with experts from slime's loop", function()
    assert.equal("moe-layer-freq=[0]*3+[1]*58", flags [[
NLAYERS=61
FIRST_K_DENSE_REPLACE=3
arr=()
for ((i=0; i<NLAYERS; i++)); do
  if (( i < FIRST_K_DENSE_REPLACE )); then
    arr+=(0)
  else
    arr+=(1)
  fi
done
printf -v MOE_LAYER_FREQ "[%s]" "$(IFS=', '; echo "${arr[*]}")"
MODEL_ARGS=(--moe-layer-freq $MOE_LAYER_FREQ)]])
  end)

  it("keep the output of commands as unknown text", function()
    assert.equal("nnodes=$(sinfo -h | wc -l) nproc-per-node=$(python3 -c \"print(8)\"),x.py seq-length=4096", flags [=[
NODES=$(sinfo -h | wc -l)
GPUS=`python3 -c "print(8)"`
torchrun --nnodes $NODES --nproc_per_node $GPUS x.py --seq-length ${1:-"4096"}]=])
  end)
end)

describe("Megatron-LM's flags", function()
  it("do not expand 10^12 layers", function()
    for _, layers in ipairs { "1000000000000", "2.5" } do
      assert.matches("--num-layers: must be an integer of at most 65536, got " .. layers, message(
        ("pretrain_mamba.py --num-layers %s --hidden-size 256 --num-attention-heads 4 --vocab-size 1000 "
          .. "--seq-length 128 --hybrid-attention-ratio 0.1"):format(layers), { dp = 1 }), 1, true)
    end
    assert.matches("--hybrid-override-pattern: unknown letter 'x'; known are *, -, E, G, M", message(small
      .. "--is-hybrid-model --hybrid-override-pattern M-xM", { dp = 1 }), 1, true)
    assert.matches("--moe-layer-freq: must give 0 or 1 for each of 4 layers", message(small
      .. "--num-experts 4 --moe-layer-freq ([" .. ("1,"):rep(1000) .. "]*65536)*65536", { dp = 1 }), 1, true)
    assert.matches("--moe-layer-freq: must be at least 1, got 0", message(small
      .. "--num-experts 4 --moe-layer-freq 0", { dp = 1 }), 1, true)
    assert.matches("field 'layers' must be at most 65536, got 1000000000000", message(
      "--num-layers 1000000000000 --hidden-size 256 --num-attention-heads 4 --vocab-size 1000 --seq-length 128 "
      .. "--num-experts 4 --moe-layer-freq 1", { dp = 1 }), 1, true)
  end)

  it("take the devices of a Slurm job, which torchrun's flags replace", function()
    local function replicas(lines, flags) return read(lines .. "\n" .. small .. (flags or "")).plan.dp end
    assert.equal(32, replicas "#!/bin/bash\n#SBATCH --nodes=4 --exclusive\n#SBATCH --gres=gpu:8")
    assert.equal(32, replicas "#SBATCH -N 4\n#SBATCH --gpus-per-node=h100:8 # all\n#SBATCH --ntasks-per-node=1")
    assert.equal(6, replicas "#SBATCH --nodes 2\n#SBATCH --ntasks-per-node 3")
    assert.equal(8, replicas("#SBATCH --nodes=4\n#SBATCH --gres=gpu:8", "--nnodes 1 --nproc-per-node 8"))
    assert.equal(16, replicas("##SBATCH --nodes=64\n# SBATCH -N 8\n#SBATCH --nodes=4\n#SBATCH --nodes=2\r\n"
      .. "#SBATCH --gres=gpu:8\n"))
    assert.equal(32, replicas("#SBATCH -N 4\n#SBATCH --gpus-per-node=8\nNNODES=${SLURM_NNODES:-1}",
      "--nnodes $NNODES --nproc-per-node $SLURM_GPUS_ON_NODE"))
    assert.equal(8, replicas("#SBATCH -N 4\n#SBATCH --ntasks-per-node=2", "--world-size $SLURM_NTASKS"))
    assert.matches("does not give the number of devices", message("#SBATCH --nodes=4\n" .. small))
    local unset = "--nproc-per-node: the file does not define '$N'; define it there, or give dp=N"
    assert.matches(unset, message(small .. "--nproc-per-node $N"), 1, true)
    assert.equal(3, read(small .. "--nproc-per-node $N", { dp = 3 }).plan.dp)
  end)

  it("of Megatron-DeepSpeed have its names and defaults", function()
    local deepspeed = small .. "--deepspeed --deepspeed_config x.json --num_nodes=2 --num_gpus=8 --fp16 "
    local run = read(deepspeed .. "--zero-stage 2 --checkpoint-activations --no-pipeline-parallel")
    local p = run.plan
    assert.same({ 16, 2, "full", "megatron_deepspeed" }, { p.dp, p.zero, p.recompute, p.stack })
    assert.same({ "2 flags have no effect on the step" }, run.model.notes)
    for pp, noted in pairs { [1] = false, [2] = true } do
      run = read(deepspeed .. "--overlap-grad-reduce --overlap-param-gather --tensor-model-parallel-size 2 "
        .. "--num-virtual-stages-per-pipeline-rank 2 --pipeline-model-parallel-size " .. pp)
      p = run.plan
      assert.same({ not noted, false, noted or nil, noted or nil, 1 },
        { p.overlap_gradients, p.overlap_parameters, p.serial_sends, p.scatter_sends, p.vp })
      local notes = table.concat(run.model.notes, "\n")
      assert.matches("DeepSpeed gathers weights during computing at stage 3 only", notes, 1, true)
      assert.equal(noted, notes:find("DeepSpeed's pipelines have no virtual stages", 1, true) ~= nil)
      assert.equal(noted, notes:find("DeepSpeed's pipelines do not overlap reductions", 1, true) ~= nil)
    end
    run = read(deepspeed .. "--num-experts 16 --moe-expert-parallel-size 16 --moe-train-capacity-factor 1.25")
    local h = run.model.hyper
    assert.same({ 16, 1, 2, 1024 }, { h.experts, h.top_k, h.moe_every, h.moe_ffn })
    assert.same({ 16, 1.25, true, 1 }, { run.plan.ep, run.plan.capacity_factor, run.plan.pad_to_capacity,
      run.plan.zero })
    run = read(deepspeed .. "--num-experts 16 --topk 2 --expert-interval 1")
    h, p = run.model.hyper, run.plan
    assert.same({ 2, 1, 1.0, true }, { h.top_k, h.moe_every or 1, p.capacity_factor, p.pad_to_capacity })
    p = read(deepspeed .. "--num-experts 16 --disable-moe-token-dropping").plan
    assert.same({ nil, nil }, { p.capacity_factor, p.pad_to_capacity })
    run = read(deepspeed .. "--num-experts 1")
    assert.same({ nil, nil, "gpt" }, { run.model.hyper.experts, run.plan.capacity_factor, run.architecture })
    assert.equal(12, read(small .. "--bf16 --optimizer fusedadamw", { dp = 1 }).plan.optimizer_bytes)
    run = read(small .. "--bf16 --optimizer dist_muon --perform-rl-step", { dp = 1 })
    local notes = table.concat(run.model.notes, "\n")
    assert.same({ 12, "muon", 5, 1, true }, { run.plan.optimizer_bytes, run.plan.optimizer,
      run.plan.muon_steps, run.plan.zero, run.plan.gradient_all_reduce })
    p = read(small .. "--bf16 --optimizer muon --muon-num-ns-steps 7 --muon-tp-mode duplicated --muon-momentum 0.9",
      { dp = 1, tp = 2 }).plan
    assert.same({ 7, "duplicated", 0 }, { p.muon_steps, p.muon_tensor, p.zero })
    for mode, given in pairs { duplicated = { dp = 2 }, blockwise = { dp = 2, zero = 0 } } do -- fields with an effect
      run = read(small .. "--bf16 --optimizer dist_muon --muon-tp-mode " .. mode, given)
      assert.same({}, estimate.new({ model = run.model, plan = run.plan, cluster = "dgx_h100" }).warnings)
    end
    assert.matches("--muon-tp-mode distributed is modelled as blockwise", table.concat(read(small
      .. "--bf16 --optimizer muon --muon-tp-mode distributed", { dp = 1 }).model.notes), 1, true)
    assert.matches("not modelled: --perform-rl-step", notes, 1, true)
    assert.equal("full", read(small .. "--activations-checkpoint-method uniform", { dp = 1 }).plan.recompute)
  end)

  it("of Megatron-DeepSpeed have DeepSpeed's gradients", function()
    local function of(more, given)
      local run = read(small .. "--deepspeed --num_gpus=8 " .. more, given)
      local p = run.plan
      return { p.zero, p.dtype, p.gradient_dtype, p.reduce_dtype or "-", p.gradient_all_reduce, p.bucket_bytes / 1e9,
        run.model.notes[#run.model.notes] }
    end
    assert.same({ 1, "bf16", "bf16", "-", true, 1 }, of "--bf16")
    assert.same({ 2, "bf16", "bf16", "-", true, 1 }, of "--bf16 --zero-stage 2 --accumulate-allreduce-grads-in-fp32")
    assert.same({ 3, "bf16", "bf16", "-", false, 1 }, of "--bf16 --zero-stage 3")
    assert.same({ 1, "bf16", "fp32", "bf16", true, 1,
      "--zero-stage 0 in bf16: DeepSpeed shards the optimizer states all the same, as zero=1" }, of
      "--bf16 --zero-stage 0")
    assert.same({ 0, "fp16", "fp16", "-", false, 1 }, of "--fp16 --zero-stage 0 --accumulate-allreduce-grads-in-fp32")
    assert.same({ 0, "fp32", "fp32", "-", false, 2 }, of "--zero-stage 0")
    assert.same({ 3, "bf16", "bf16", "-", false, 1 }, of("--bf16", { zero = 3 })) -- as --zero-stage 3
    assert.same({ 0, "bf16", "bf16", "-", false, 1 }, of("--bf16 --zero-stage 0", { zero = 0 }))
    assert.same({ 1, "bf16", "fp32", "bf16", true, 1 }, of("--bf16", { gradient_dtype = "fp32" }))
  end)

  it("store half of the master weights next to bf16, unless Megatron-Core makes them itself", function()
    local function bytes(flags) return read(small .. flags, { dp = 2 }).plan.optimizer_bytes end
    local aware = "--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16 "
    assert.same({ 6, 8, 8, 6, 8, 6, 8, 8, 10 }, { bytes("--bf16 " .. aware), bytes("--fp16 " .. aware),
      bytes("--bf16 --no-store-param-remainders " .. aware), bytes("--bf16 --main-params-dtype fp16 " .. aware),
      bytes("--bf16 --fp8-recipe tensorwise " .. aware), bytes("--bf16 --fp8-format hybrid " .. aware),
      bytes("--bf16 --fp8-format hybrid --fp8-recipe mxfp8 " .. aware),
      bytes("--bf16 --optimizer-cpu-offload " .. aware), bytes "--bf16 --use-precision-aware-optimizer" })
    local file = "model: {num_layers: 2, hidden_size: 64, num_attention_heads: 2, seq_length: 32, vocab_size: 100}\n"
      .. "optimizer: {bf16: true, use_precision_aware_optimizer: true, exp_avg_dtype: torch.bfloat16, "
      .. "exp_avg_sq_dtype: torch.bfloat16, store_param_remainders: %s}\n"
    local function of(stored) return read(file:format(stored), { dp = 2 }, nil, ".yaml").plan.optimizer_bytes end
    assert.same({ 6, 8 }, { of "true", of "false" })
    local whole = file:format "true" .. "mixed_precision: bf16_mixed\n" -- its fp8_recipe is tensorwise
    assert.equal(8, read(whole, { dp = 2 }, nil, ".yaml").plan.optimizer_bytes)
  end)

  it("have gradients of the type of --main-grads-dtype next to bf16", function()
    local function kind(flags) return read(small .. flags, { dp = 2 }).plan.gradient_dtype end
    assert.same({ "fp32", "bf16", "fp32", "fp32", "bf16" }, { kind "--bf16", kind "--bf16 --main-grads-dtype bf16",
      kind "--bf16 --main-grads-dtype fp32", kind "--main-grads-dtype bf16",
      kind "--bf16 --grad-reduce-in-bf16 --main-grads-dtype fp32" })
    local whole = "ARGS: { --num-layers: 4, --hidden-size: 256, --num-attention-heads: 4, --vocab-size: 1000, "
      .. "--seq-length: 128, --bf16: true, --main-grads-dtype: bf16 }\n"
    assert.equal("bf16", read(whole, { dp = 2 }, nil, ".yaml").plan.gradient_dtype)
    local bridge = "model: {num_layers: 2, hidden_size: 64, num_attention_heads: 2, seq_length: 32, vocab_size: 100}\n"
      .. "optimizer: {bf16: true, main_grads_dtype: torch.bfloat16}\nddp: {grad_reduce_in_fp32: true}\n"
    assert.equal("fp32", read(bridge, { dp = 2 }, nil, ".yaml").plan.gradient_dtype)
  end)

  it("may have a layout of stages with the backslashes of a shell", function()
    local run = read("MODEL_ARGS:\n  --num-layers: 14\n  --hidden-size: 64\n  --num-attention-heads: 2\n"
      .. "  --seq-length: 32\n  --vocab-size: 100\n  --pipeline-model-parallel-size: 4\n"
      .. "  --pipeline-model-parallel-layout: Et*2\\\\|\\\\(tt\\\\|\\\\)*5t\\\\|tmL # note\n", { dp = 1 }, nil, ".yaml")
    assert.same({ 2, 2, 2, 2, 2, 2, 1, 1 }, run.plan.split)
    assert.equal(2, run.plan.vp)
  end)

  it("of Primus are the overrides of its trainer, with the defaults of variables", function()
    local text = [[
work_group: ${PRIMUS_TEAM:amd}
modules:
  pre_trainer:
    framework: %s
    config: pre_trainer.yaml
    model: ${PRIMUS_MODEL:qwen3_30B_A3B}.yaml
    overrides:
      stderr_sink_level: DEBUG
      micro_batch_size: 8
      global_batch_size: 512
      seq_length: ${PRIMUS_SEQ_LENGTH:4096}
      tensor_model_parallel_size: ${PRIMUS_TP:1}
      expert_model_parallel_size: ${PRIMUS_EP:8}
      train_data_path: ${PRIMUS_TOKENIZED_DATA_PATH:null}
      overlap_grad_reduce: true
      overlap_param_gather: true
      use_precision_aware_optimizer: true
      main_grads_dtype: bf16
      exp_avg_dtype: bf16
      exp_avg_sq_dtype: bf16
      auto_continue_train: false
      enable_primus_turbo: %s
      use_turbo_deepep: true
      turbo_deepep_num_cu: 80
      fp8: hybrid
]]
    local function plan_of(framework, turbo)
      local path = os.tmpname() .. ".yaml"
      assert(require("ett.io").write(path, text:format(framework, turbo)))
      local model = model_module.new "qwen3-30b-a3b"
      local ok, run = pcall(megatron.read, path, { dp = 8 }, nil, model)
      os.remove(path)
      return ok and run.plan or tostring(run), model.notes
    end
    local p, notes = plan_of("megatron", "true")
    for name, value in pairs { seq = 4096, micro_batch = 8, global_batch = 512, ep = 8, tp = 1, dtype = "fp8", zero = 1,
      gradient_dtype = "bf16", overlap_gradients = true, overlap_parameters = true, deduplicate_tokens = true } do
      assert.equal(value, p[name], name)
    end
    assert.matches("^primus_moe", p.stack)
    assert.is_nil(table.concat(notes, "\n"):find("unknown", 1, true))
    assert.matches("^megatron:", plan_of("megatron", "false").stack) -- Turbo's switch is off
    assert.matches("modules.pre_trainer.framework must be 'megatron', got 'torchtitan'",
      (plan_of("torchtitan", "true")), 1, true)
    assert.equal("FILE: missing --num-layers, --hidden-size, --num-attention-heads; another file holds them: give "
      .. "--model NAME", message(text:format("megatron", "true"), { dp = 8 }, nil, ".yaml"))
  end)

  -- The plan of a file of Primus with these modules, or the error; and the notes.
  local function primus(modules, given, more)
    local path, model = os.tmpname() .. ".yaml", model_module.new("qwen3-30b-a3b", more)
    assert(require("ett.io").write(path, "modules:\n" .. modules))
    local ok, run = pcall(megatron.read, path, given or { dp = 8 }, nil, model)
    os.remove(path)
    return ok and run.plan or tostring(run), table.concat(model.notes or {}, "\n")
  end

  it("of Primus repeat the listed layers", function()
    local function of(ids, given, more)
      local p, notes = primus("  a:\n    framework: megatron\n    config: own.yaml\n    overrides: { seq_length: 512, "
        .. "global_batch_size: 8, recompute_granularity: full, recompute_layer_ids: " .. ids .. " }\n", given, more)
      if type(p) == "string" then return p end
      return { p.recompute, table.concat(p.recompute_layer_ids or {}, " "), p.recompute_layers or "-",
        notes:match "%-%-recompute%-layer%-ids[^\n]*" }
    end
    assert.same({ "full", "0 1 2 47", "-" }, of '"0,47, 2,1,2"')
    assert.same({ "full", "0 24", "-" }, of "[24, 0]")
    local all = {}
    for id = 0, 47 do all[#all + 1] = id end
    assert.same({ "full", "", "-" }, of('"' .. table.concat(all, ",") .. '"'))
    local behind = "--recompute-layer-ids 0,48: the model has 48 layers, so those from 48 on are left out"
    assert.same({ "full", "0", "-", behind }, of "[0, 48]")
    assert.same({ "none", "", "-", (behind:gsub("0,48", "48")) }, of "[48]")
    assert.same({ "full", "0 48", "-" }, of("[0, 48]", nil, { mtp_layers = 1 })) -- multi-token prediction follows
    -- the words', not the file's
    assert.same({ "full", "", 5 }, of("[47]", { dp = 8, recompute_layers = 5 }))
    assert.same({ "full", "5", "-" }, of("[47]", { dp = 8, recompute_layer_ids = { 5 } }))
    for _, method in ipairs { "block, recompute_num_layers: 0", "uniform, recompute_num_layers: 4" } do
      assert.same({ "full", "5", "-" }, of("null, recompute_method: " .. method, { dp = 8,
        recompute_layer_ids = { 5 } }))
    end
    for _, ids in ipairs { "x", "-1", "1.5" } do
      assert.matches("--recompute-layer-ids: must be layers, counted from 0, got '" .. ids .. "'",
        of('"' .. ids .. '"'), 1, true)
    end
  end)

  it("of Primus have the batch and sequence of pre_trainer.yaml unless the file states them", function()
    local text = "  pre_trainer: { framework: megatron, config: '%s.yaml', overrides: { lr: 1 } }\n"
    local p, notes = primus(text:format "pre_trainer")
    assert.same({ 1024, 2, 16 }, { p.seq, p.micro_batch, p.global_batch })
    assert.matches("not in the file: global_batch_size (16), micro_batch_size (2), seq_length (1024)", notes, 1, true)
    p, notes = primus(text:format "${CONFIG:pre_trainer}", { dp = 4, seq = 4096 })
    assert.matches("\nnot in the file: global_batch_size %(16%), micro_batch_size %(2%)$", notes)
    assert.same({ 4096, 2, 16 }, { p.seq, p.micro_batch, p.global_batch })
    assert.matches("missing --seq-length", (primus(text:format "own")), 1, true)
  end)

  it("of Primus are those of the pre-trainer, or of a module that runs Megatron-LM", function()
    local pre = "  pre_trainer: { framework: '${FW:%s}', overrides: { seq_length: 4096 } }\n"
    local post = "  a_post: { framework: %s, overrides: { seq_length: 512 } }\n"
    assert.equal(4096, primus(post:format "other" .. pre:format "megatron").seq)
    assert.equal(4096, primus(post:format "megatron" .. pre:format "megatron").seq)
    assert.equal(512, primus(post:format "megatron" .. "  a: { framework: x, overrides: { seq_length: 1 } }\n").seq)
    assert.matches("modules.pre_trainer.framework must be 'megatron', got 'other'",
      (primus(post:format "megatron" .. pre:format "other")), 1, true)
    for value, dtype in pairs { ["false"] = "bf16", ["e2m1"] = "nvfp4", ["e2m1, fp4_recipe: mxfp4"] = "mxfp4" } do
      assert.equal(dtype, primus("  pre_trainer: { framework: megatron, overrides: { seq_length: 512, fp4: " .. value
        .. " } }\n").dtype)
    end
    assert.matches("modules.a_post.framework must be 'megatron', got 'other'", (primus(post:format "other")), 1, true)
  end)

  it("of Primus name the kernels of the experts, and force the balance of their tokens", function()
    local text = "  pre_trainer: { framework: megatron, overrides: { seq_length: 4096, expert_model_parallel_size: 8,\n"
      .. "    enable_primus_turbo: true, use_turbo_deepep: true, fp8: hybrid,\n"
      .. "    cross_entropy_loss_fusion: true, cross_entropy_fusion_impl: te, %s } }\n"
    local function stack(more) return (primus(text:format(more))).stack end
    assert.equal("primus_moe:grouped=streams", stack "use_turbo_grouped_mlp: false")
    assert.equal("primus_moe:grouped=streams",
      stack '"use_turbo_grouped_mlp": false, "ddp_bucket_size": "${OWN:null}", "overlap_grad_reduce": true')
    local fused = ", use_turbo_fused_act_with_probs: true"
    assert.equal("primus_moe", stack("use_turbo_grouped_mlp: true" .. fused))
    assert.equal("primus_moe", stack("use_turbo_grouped_gemm: true" .. fused))
    assert.equal("primus_moe:gated_mlp=5.6", stack "use_turbo_grouped_gemm: true")
    assert.equal("primus_moe:quantised_products=dense", stack "moe_use_legacy_grouped_gemm: true")
    local off = text:gsub("primus_turbo: true", "primus_turbo: false"):format "use_turbo_grouped_mlp: true"
    assert.equal("megatron", (primus(off)).stack)
    local launched = read("--num-layers 2 --hidden-size 64 --num-attention-heads 2 --seq-length 32 --vocab-size 100\n"
      .. "--num-experts 8 --fp8-format hybrid --bf16 --cross-entropy-loss-fusion "
      .. "--cross-entropy-fusion-impl te --moe-use-legacy-grouped-gemm\n", { dp = 1 })
    assert.equal("megatron:quantised_products=dense", launched.plan.stack)

    local function exchanged(more)
      local path, model = os.tmpname() .. ".yaml", model_module.new "qwen3-30b-a3b"
      assert(require("ett.io").write(path, "modules:\n" .. text:format(more)))
      local run = megatron.read(path, { dp = 8 }, nil, model)
      os.remove(path)
      local answer = require("ett").estimate { model = run.model, plan = run.plan, cluster = "mi355x_node" }
      return answer.all_to_all_exposed_seconds, table.concat(run.model.notes, "\n")
    end
    local free, without = exchanged "lr: 1"
    local even, with = exchanged "moe_router_force_load_balancing: true"
    local uniform = exchanged "moe_router_force_load_balancing: true, moe_router_force_load_balancing_type: uniform"
    assert.equal(free, uniform)
    assert.near(1 / 5.25, even / free, 0.06) -- the experts of a token are on one rank instead of 5.25
    assert.matches("a token's 8 experts are next to each other", with, 1, true)
    assert.not_matches("next to each other", without, 1, true)
  end)

  it("of Primus name the kernels of Turbo that are not modelled", function()
    local text = "  pre_trainer: { framework: megatron, overrides: { enable_primus_turbo: %s,\n"
      .. "    use_turbo_attention: true, use_turbo_gemm: false, use_turbo_deepep: true,\n"
      .. "    turbo_deepep_num_cu: 80, turbo_gemm_backend: default, turbo_sync_free_moe_stage: 0 } }\n"
    assert.matches("not modelled: --turbo-deepep-num-cu, --use-turbo-attention\n",
      select(2, primus(text:format "true")) .. "\n", 1, true)
    assert.is_nil((select(2, primus(text:format "false")):find("turbo", 1, true)))
    for stage = 0, 3 do
      local p, notes = primus(((text:format "true"):gsub("stage: 0", "stage: " .. stage)))
      assert.equal(stage >= 2, p.stack:find(":reads_counts=none", 1, true) ~= nil)
      assert.equal(stage > 0, notes:find("--turbo-sync-free-moe-stage: its larger buffers", 1, true) ~= nil)
    end
  end)

  it("of Megatron-LM's recipes are the keys of ARGS, with lists as on a command line", function()
    local run = read([[
DEPENDENCIES:
  pytorch_base_image: nvcr.io/nvidia/pytorch:26.03-py3
  dockerfile: |
    ARG NUM_LAYERS=3
    RUN pip install --no-build-isolation .
ENV_VARS:
  CUDA_DEVICE_MAX_CONNECTIONS: '32'
ARGS:
  num_layers: 14
  hidden_size: 64
  num_attention_heads: 4
  seq_length: 32
  vocab_size: 100
  num_experts: 8
  expert_model_parallel_size: 2
  pipeline_model_parallel_size: 2
  num_layers_per_virtual_pipeline_stage: 4
  account_for_embedding_in_pipeline_split: true
  account_for_loss_in_pipeline_split: true
  moe_token_dispatcher_type: flex
  moe_flex_dispatcher_backend: hybridep
  moe_paged_stash: true
  recompute_granularity: selective
  recompute_modules: moe_act layernorm
  cuda_graph_impl: transformer_engine
  cuda_graph_scope:
  - moe_router
  - moe_preprocess
  bf16: true
  main_grads_dtype: bf16
]], { dp = 2 }, nil, ".yaml")
    local p, notes = run.plan, table.concat(run.model.notes, "\n")
    assert.same({ "moe_act", "layernorm" }, p.recompute_modules)
    assert.same({ 3, 4, 4, 3 }, p.split)
    assert.equal("megatron_hybridep:cross_entropy=megatron:graphed=moe_router+moe_preprocess", p.stack)
    assert.equal("bf16", p.gradient_dtype) -- a flag of Megatron-LM, not a field of NeMo's optimizer
    assert.is_nil(notes:find("unknown", 1, true))
    assert.matches("not modelled: --moe-paged-stash", notes, 1, true)
  end)

  it("pad the rows of experts, so that the host reads numbers of tokens before it permutes", function()
    local function stack_of(flags, experts)
      local run = read(small .. (experts or "--num-experts 8 --moe-router-topk 2 ") .. "--nproc-per-node 8 "
        .. "--cross-entropy-loss-fusion --cross-entropy-fusion-impl te " .. flags)
      return run.plan.stack, table.concat(run.model.notes, "\n")
    end
    assert.equal("megatron", (stack_of "--moe-token-dispatcher-type alltoall"))
    for _, flag in ipairs { " --moe-router-padding-for-fp8", " --moe-router-padding-for-quantization" } do
      local stack, notes = stack_of("--moe-token-dispatcher-type alltoall" .. flag)
      assert.equal("megatron:reads_counts=before_permute", stack)
      assert.matches(flag:sub(2) .. ": its additional rows are not modelled", notes, 1, true)
      assert.equal("megatron_moe", (stack_of("--moe-token-dispatcher-type flex --moe-enable-deepep" .. flag)))
      stack, notes = stack_of(flag, "") -- a dense model
      assert.same({ "megatron" }, { stack, notes:match "additional rows" })
    end
  end)

  it("fix the rows of HybridEP, so that the host reads no numbers of tokens", function()
    local function stack_of(flags)
      local run = read(small .. "--num-experts 8 --moe-router-topk 2 --nproc-per-node 8 --cross-entropy-loss-fusion "
        .. "--cross-entropy-fusion-impl te --moe-token-dispatcher-type flex " .. flags)
      return run.plan.stack, table.concat(run.model.notes, "\n")
    end
    local fixed = " --moe-expert-rank-capacity-factor 1.5"
    local stack, notes = stack_of("--moe-flex-dispatcher-backend hybridep" .. fixed)
    assert.equal("megatron_hybridep:reads_counts=none", stack)
    assert.matches("--moe-expert-rank-capacity-factor: its additional rows are not modelled", notes, 1, true)
    assert.equal("megatron_hybridep", (stack_of "--moe-flex-dispatcher-backend hybridep"))
    local fused = "--moe-flex-dispatcher-backend hybridep --use-transformer-engine-op-fuser"
    local said = "FUSED_GROUPED_MLP=1, "
    assert.matches(said .. "state stack=megatron_hybridep:grouped=kernel", select(2, stack_of(fused)), 1, true)
    assert.is_nil(select(2, stack_of(fused .. " --cuda-graph-impl full_iteration")):find(said, 1, true))
    assert.equal("megatron_moe", (stack_of(fixed)))
  end)

  it("have Megatron-LM's defaults", function()
    local run = read(small .. "--swiglu --nproc-per-node 8 --nnodes 2 --tensor-model-parallel-size 2")
    local h, p = run.model.hyper, run.plan
    assert.same({ 4 * 256 * 2 // 3 // 64 * 64, "layer_norm", true, true, "learned", true, 4, true },
      { h.ffn, h.norm, h.bias, h.tied_embeddings, h.position, h.gated_mlp, h.kv_heads, h.dropout })
    assert.same({ 2, 1, 8, 1, 8, "fp32", "fp32", 0, false, true, "megatron:cross_entropy=megatron" },
      { p.tp, p.pp, p.dp, p.micro_batch, p.global_batch, p.dtype, p.gradient_dtype, p.zero, p.sequence_parallel,
        p.fused_accumulation, p.stack })
  end)

  it("choose the kernels of loss and attention, and CUDA graphs", function()
    local function chosen(flags)
      local run = read(small .. "--swiglu " .. flags, { dp = 2 })
      return run.plan.stack, run.model.hyper.attention, table.concat(run.model.notes, "\n"), run.plan.bucket_bytes
    end
    for flags, expected in pairs { [""] = ":cross_entropy=megatron",
      ["--cross-entropy-loss-fusion"] = ":cross_entropy=native",
      ["--no-bias-swiglu-fusion"] = ":cross_entropy=megatron:gated_mlp=3.1",
      ["--cross-entropy-loss-fusion --cross-entropy-fusion-impl te"] = "",
      ["--cross-entropy-loss-fusion --cross-entropy-fusion-impl linear"] = ":cross_entropy=recomputed",
      ["--cross-entropy-loss-fusion --cross-entropy-fusion-impl te --enable-cuda-graph"] = ":graphs",
      ["--fp8-format hybrid --fp8-param-gather"] = ":cross_entropy=megatron:quantised_weights=only",
      ["--fp8-format hybrid --fp8-param-gather --disable-parameter-transpose-cache"] =
        ":cross_entropy=megatron:quantised_weights=single",
      ["--fp8-format hybrid"] = ":cross_entropy=megatron", ["--fp8-param-gather"] = ":cross_entropy=megatron",
      ["--cuda-graph-impl local --cuda-graph-scope full_iteration"] = ":cross_entropy=megatron:graphs",
      ["--external-cuda-graph --cuda-graph-scope attn"] = ":cross_entropy=megatron:graphed=attn",
      ["--cuda-graph-impl transformer_engine --cuda-graph-scope attn moe_router"] =
        ":cross_entropy=megatron:graphed=attn+moe_router",
      ["--cuda-graph-impl transformer_engine --cuda-graph-modules attn moe_router"] =
        ":cross_entropy=megatron:graphed=attn+moe_router",
      ["--cuda-graph-impl full_iteration --cuda-graph-modules"] = ":cross_entropy=megatron:graphs",
      ["--fp8-dot-product-attention"] = ":cross_entropy=megatron",
      ["--fp8-format e4m3 --fp8-recipe mxfp8 --fp8-dot-product-attention"] =
        ":cross_entropy=megatron:attention_dtype=fp8" } do
      assert.equal("megatron" .. expected, (chosen(flags)), flags)
    end
    assert.matches("--fp8-param-gather is not modelled", select(3, chosen "--fp8-param-gather"), 1, true)
    local sharded, _, said, bucket = chosen("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params "
      .. "--overlap-grad-reduce --overlap-param-gather --fp8-format hybrid --fp8-param-gather")
    assert.equal("megatron_fsdp:cross_entropy=megatron:quantised_weights=only", sharded)
    assert.is_nil(said:find("param-gather", 1, true))
    assert.is_nil(bucket)
    assert.matches("--use-nccl-ub: where the data-parallel ranks share NVLink, state "
      .. "stack=megatron:cross_entropy=megatron:registered_buffers", select(3, chosen "--use-nccl-ub"), 1, true)
    local graphed, attention, notes = chosen("--cuda-graph-impl transformer_engine --cuda-graph-scope attn mamba "
      .. "--no-rope-fusion")
    assert.equal("flash", attention)
    assert.equal("megatron:cross_entropy=megatron:graphed=attn", graphed)
    assert.matches("not modelled: --cuda-graph-scope attn mamba", notes, 1, true)
    assert.matches("not modelled: --no-rope-fusion", notes, 1, true)
    for flags, kernel in pairs { ["--transformer-impl local"] = "fused_softmax",
      ["--transformer-impl local --use-flash-attn"] = "flash", ["--transformer-impl transformer_engine"] = "flash",
      ["--transformer-impl local --attention-backend flash"] = "flash" } do
      assert.equal(kernel, select(2, chosen(flags)), flags)
    end
    assert.has_error(function() chosen "--cross-entropy-loss-fusion --cross-entropy-fusion-impl nativ" end)
  end)

  it("leave no CUDA graphs open if a script without them holds all flags of its mixture", function()
    local flags = small .. "--num-experts 4 --moe-router-topk 2 --bf16 --recompute-activations "
    local function graphs(before, after)
      local run = read(before .. "torchrun --nproc-per-node 2 pretrain_gpt.py " .. flags .. after)
      local e = estimate.new { model = run.model, plan = run.plan, cluster = "dgx_h100" }
      return table.concat(e.left_open, " "):match "graphs none"
    end
    for _, case in ipairs { { "", "" }, { "B='--swiglu'\nC=(--swiglu)\n", "$B ${C[@]} --data-path $DATA" },
      { "", "--cuda-graph-impl none $B" }, { "N=$(hostname)\n", "--master-addr $N" },
      { "N=${C:-1}\nB=\"--swiglu --lr ${D:-1}\"\n", "--context-parallel-size $N $B" },
      { "", "--data-path 0.5 $DATA 0.5 ${MORE} --swiglu > $LOG" }, { "", "2>> $LOG" }, { "", "&> $(date).log" },
      { "B=\"--train-data-path 1 $C 2 $D\"\n", "$B" }, { "B=(--data_path 1 $C)\n", "${B[@]}" },
      { "A=\"-n $C\"\nmpirun -x $DATA $A $D ", "" } } do
      assert.is_nil(graphs(table.unpack(case)), case[1] .. case[2])
    end
    for _, case in ipairs { { "", "--swiglu --lr 1 $B" }, { "", '"$@"' }, { "B=(--lr 1 $C)\n", "${B[@]}" },
      { "", "${B[@]}" }, { "B=(${C[@]})\n", "${B[@]}" },
      { "if [ $1 = 1 ]; then\nB=\nelse\nB=--enable-cuda-graph\nfi\n", "$B" }, { "source b.sh\n", "$B --swiglu" },
      { "", "--data-path 1 $B $C" }, { "", "2>&1 $B" }, { "", "--data-path $A $B" }, { "mpirun -x $A ", "-x $B" },
      { "mpirun $B ", "$B" }, { "", "--no-load-rng $B" }, { "", "--log-throughput ${B:-}" },
      { "B='--moe-grouped-gemm $C'\n", "$B" },
      { "B='--lr 1'\nB=\"$(cat b.txt) --swiglu\"\n", "$B" },
      { "B=\"--swiglu ${C:-}\"\n", "$B" }, { "B=(--swiglu ${C:-})\n", "${B[@]}" }, { "B=${B:-}\n", "$B" },
      { "", "$(cat b.txt)" }, { "", "`cat b.txt`" }, { "", '"$1"' }, { 'B="`cat b.txt`"\n', "$B" },
      { "B=--swiglu\nB=\"$B $(cat b.txt)\"\n", "$B" }, { "eval ", "" }, { "", "--yaml-cfg b.yaml" } } do
      assert.equal("graphs none", graphs(table.unpack(case)), case[1] .. case[2])
    end
  end)

  it("make a mixture with latent attention and a pipeline of chunks", function()
    local run = read([[--num-layers 8 --hidden-size 1024 --ffn-hidden-size 4096 --num-attention-heads 16
      --seq-length 4096 --vocab-size 129280 --swiglu --disable-bias-linear --normalization RMSNorm --bf16
      --position-embedding-type rope --untie-embeddings-and-output-weights --hidden-dropout 0 --attention-dropout 0
      --multi-latent-attention --q-lora-rank 512 --kv-lora-rank 256 --qk-head-dim 64 --qk-pos-emb-head-dim 32
      --v-head-dim 64 --num-experts 16 --moe-router-topk 4 --moe-ffn-hidden-size 512
      --moe-shared-expert-intermediate-size 512 --moe-layer-freq ([0]*2+[1]*6) --mtp-num-layers 1
      --tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 1
      --expert-model-parallel-size 8 --expert-tensor-parallel-size 1 --micro-batch-size 1 --global-batch-size 256
      --moe-enable-deepep --moe-token-dispatcher-type flex --fp8-format e4m3 --fp8-recipe blockwise
      --recompute-granularity selective --recompute-modules moe mla_up_proj moe_act --use-distributed-optimizer
      --use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16]], { dp = 8 })
    local h, p = run.model.hyper, run.plan
    assert.same({ 16, 4, 512, 512, 2, 1, 256, 1 }, { h.experts, h.top_k, h.moe_ffn, h.shared_ffn, h.first_dense_layers,
      h.moe_every, h.kv_lora_rank, h.mtp_layers })
    assert.same({ 4, 2, "interleaved", true, 8, "fp8_block", "selective", 1, 8, true }, { p.pp, p.vp, p.schedule,
      p.overlap_sends, p.ep, p.dtype, p.recompute, p.zero, p.optimizer_bytes, p.deduplicate_tokens })
    assert.equal("megatron_moe:cross_entropy=megatron", p.stack)
    assert.same({ "moe", "mla_up_proj", "moe_act" }, p.recompute_modules)
    local selective = small .. "--recompute-granularity selective --recompute-modules mlp mlp core_attn"
    local twice = read(selective, { dp = 1 })
    assert.same({ "mlp", "core_attn" }, twice.plan.recompute_modules)
    assert.same({}, twice.model.notes)
    assert.is_nil(read(selective, { dp = 1, recompute = "full" }).plan.recompute_modules)
    assert.same({}, run.model.notes)
    local partly = read(small .. "--recompute-granularity selective --recompute-modules moe attn", { dp = 1 })
    assert.same({ "moe" }, partly.plan.recompute_modules)
    assert.same({ "--recompute-modules moe attn: ett recomputes moe of them" }, partly.model.notes)
    local older = read(small .. "--moe-layer-recompute", { dp = 1 })
    assert.same({ "selective", { "moe", "core_attn" }, {} },
      { older.plan.recompute, older.plan.recompute_modules, older.model.notes })
    local e = estimate.new { model = run.model, plan = run.plan, cluster = "dgx_h100" }
    assert.is_true(e.mfu_percent > 1 and e.mfu_percent < 100)
  end)

  it("place layers by --pipeline-model-parallel-layout, and choose the dispatcher's stack", function()
    local flags = [[--num-layers 9 --hidden-size 1024 --num-attention-heads 16 --seq-length 4096 --vocab-size 32000
      --swiglu --disable-bias-linear --normalization RMSNorm --bf16 --position-embedding-type yarn --num-experts 8
      --moe-router-topk 2 --activation-func-clamp-value 7.0 --hidden-dropout 0 --attention-dropout 0
      --pipeline-model-parallel-size 2 --expert-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 64
      --moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep --pipeline-model-parallel-layout ]]
    local run = read(flags .. '"Et*3|(t*2|)*2,ttL"', { dp = 4 })
    assert.same({ 3, 2, 2, 2 }, run.plan.split)
    assert.same({ 2, "interleaved", true, "megatron_hybridep:cross_entropy=megatron" },
      { run.plan.vp, run.plan.schedule, run.plan.deduplicate_tokens, run.plan.stack })
    assert.is_true(run.model.hyper.scaled_rope and run.model.hyper.clamped_mlp)
    for text, why in pairs { ["Et*4|t*4L"] = "9 layers", ["Ex|tL"] = "9 layers", ["E|(t|)*9999L"] = "9 layers" } do
      local other = read(('%s"%s"'):format(flags, text), { dp = 4 })
      assert.is_nil(other.plan.split)
      assert.matches(why, table.concat(other.model.notes))
    end
  end)

  it("notes conditions on values outside the file", function()
    local text = "if [ $1 = big ]; then\nWIDTH=256\nfi\nx.py --num-layers 4 --hidden-size $WIDTH "
      .. "--num-attention-heads 4 --vocab-size 1000 --seq-length 128 --nproc-per-node 1 "
      .. "--max-position-embeddings 128"
    assert.same({ "conditions on values outside the file, taken as true: [ $1 = big ]. Words behind the "
      .. "file set $1, $2, ...: \"FILE WORD WORD ...\"" }, read(text).model.notes)
  end)

  it("repeats a whole list of layers, and takes given layers with experts in its place", function()
    local text = small .. "--num-experts 2 --num-layers 8 --nproc-per-node 1 --moe-layer-freq "
    local h = read(text .. "'([0]+[1])*4'").model.hyper
    assert.same({ 0, 2 }, { h.first_dense_layers, h.moe_every })
    assert.matches("--moe-layer-freq: the file does not define '$FREQ'; define it there, or give "
      .. "first_dense_layers=N", message(text .. "$FREQ"), 1, true)
    h = read(text .. "$FREQ", nil, { first_dense_layers = 3 }).model.hyper
    assert.same({ 3, 1 }, { h.first_dense_layers, h.moe_every or 1 })
  end)

  it("of Megatron-DeepSpeed name norms and key heads as it does", function()
    local run = read(small .. "--deepspeed --normalization rmsnorm --num-key-value-heads 2 --num-gpus 1")
    assert.same({ "rms_norm", 2 }, { run.model.hyper.norm, run.model.hyper.kv_heads })
    assert.same({}, run.model.notes)
  end)

  it("place the layers of a hybrid by their shares, or by a pattern with pipeline stages and MTP", function()
    local text = "--hidden-size 4096 --num-attention-heads 32 --group-query-attention --num-query-groups 8 "
      .. "--vocab-size 256000 --seq-length 4096 --disable-bias-linear --normalization RMSNorm "
      .. "--untie-embeddings-and-output-weights --position-embedding-type none --nproc-per-node 1 "
    local kinds = { mamba2 = "M", mlp = "-", full_attention = "*", linear_attention = "G" }
    local function pattern(more)
      local letters = {}
      for i, kind in ipairs(read(text .. more).model.hyper.layer_types) do letters[i] = kinds[kind] end
      return table.concat(letters)
    end
    -- Nemotron's 8B hybrid (arXiv 2406.07887): 24 Mamba-2, 4 attention and 28 MLP layers; 8.66e9 parameters
    local letters = pattern "--num-layers 56 --hybrid-attention-ratio 0.08 --hybrid-mlp-ratio 0.5"
    assert.same({ 24, 4, 28 }, { select(2, letters:gsub("M", "")), select(2, letters:gsub("%*", "")),
      select(2, letters:gsub("%-", "")) })
    assert.equal("M-M-M--M-M*-M-M-M-M--M*-M-M-M-M-M*--M-M-M-M-M*-M--M-M-M-", letters)
    assert.equal("MM*MM*MM", pattern "--num-layers 8 --hybrid-attention-ratio 0.25")
    assert.equal("MMMM", pattern "--num-layers 4 pretrain_mamba.py")
    assert.equal("MG*-", pattern "--hybrid-layer-pattern MG|*-/M*/M*")
    assert.same({ "multi-token prediction is left out; mtp_layers=2 adds it" },
      { read(text .. "--hybrid-layer-pattern M-|*-/M*/M*").model.notes[1] })
    assert.matches("--hybrid-layer-pattern: names 4 layers, but --num-layers is 5",
      message(text .. "--num-layers 5 --hybrid-layer-pattern MM*-"), 1, true)
  end)

  it("make gated delta nets of --linear-attention-freq and of slime's specs", function()
    -- Qwen3-Next 80B A3B; its published count is 79674391296 (spec/import/huggingface_spec.lua)
    local text = "--num-layers 48 --hidden-size 2048 --num-attention-heads 16 --group-query-attention "
      .. "--num-query-groups 2 --kv-channels 256 --ffn-hidden-size 5120 --num-experts 512 --moe-ffn-hidden-size 512 "
      .. "--moe-shared-expert-intermediate-size 512 --moe-shared-expert-gate --moe-router-topk 10 --swiglu "
      .. "--qk-layernorm --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights "
      .. "--vocab-size 151936 --position-embedding-type rope --attention-output-gate --seq-length 4096 "
      .. "--nproc-per-node 1 "
    local flagged = read(text .. "--experimental-attention-variant gated_delta_net --linear-attention-freq 4")
    assert.equal(79674391296, architecture.parameters(flagged.model))
    local named = read(text .. "--spec slime_plugins.models.qwen3_next get_qwen3_next_spec")
    assert.equal(architecture.parameters(flagged.model), architecture.parameters(named.model))
    assert.same({ "--spec qwen3_next: the file has no sizes of its linear attention; those of Qwen3-Next are used" },
      { named.model.notes[1] })
    assert.same({ "flags that change the step and are not modelled: --spec my.layers get_spec" },
      { read(text .. "--spec my.layers get_spec").model.notes[1] })
  end)

  it("of other models are refused", function()
    assert.matches("pretrain_bert.py: ett reads the flags of GPT and Mamba models only",
      message("torchrun pretrain_bert.py " .. small), 1, true)
    local run = read("# not pretrain_t5.py\ntorchrun --nproc-per-node 1 pretrain_gpt.py " .. small)
    assert.equal("gpt", run.architecture)
  end)

  it("names unknown flags and flags that are not modelled, and counts flags without effect", function()
    local text = small .. "--lr 1e-4 --frobnicate 3 --rampup-batch-size 1 1 10 --log-interval 1 --tvist"
    local run = read(text, { dp = 2 })
    assert.same({ "unknown flags, ignored: --frobnicate, --tvist",
      "flags that change the step and are not modelled: --rampup-batch-size", "2 flags have no effect on the step" },
      run.model.notes)
    run = read(small .. "--tensor-modle-parallel-size 2 --seq-lenth 3 --sequence-paralel", { dp = 2 })
    -- The file has --seq-length, too.
    assert.same({ "unknown flags, ignored: --tensor-modle-parallel-size (did you mean --tensor-model-parallel-size?), "
      .. "--seq-lenth, --sequence-paralel (did you mean --sequence-parallel?)" }, run.model.notes)
    -- srun(1), numactl(8) and torchrun
    run = read("srun --cpus-per-task 72 --wait 60 numactl --membind=0-3 torchrun --tee 3 pretrain_gpt.py " .. small,
      { dp = 2 })
    assert.same({ "4 flags have no effect on the step" }, run.model.notes)
  end)

  it("that the file does not set can be given as words", function()
    local run = read("--num-layers $L --hidden-size 256 --num-attention-heads 4 --vocab-size 9 --seq-length $S "
      .. "--tensor-model-parallel-size ${TP} --global-batch-size ${GBS}",
      { dp = 2, tp = 2, seq = 64, micro_batches = 4 }, { layers = 8 })
    assert.same({ 2, 64, 8, 4 }, { run.plan.tp, run.plan.seq, run.model.hyper.layers, run.plan.micro_batches })
  end)

  it("that leave the place of uneven layers open are named", function()
    local function notes(flags, plan)
      local run = read(small:gsub("layers 4", "layers 10") .. "--pipeline-model-parallel-size 4 " .. flags, plan)
      return table.concat(run.model.notes, "\n"):match "10 layers do not divide into %d+ slices" or ""
    end
    assert.equal("10 layers do not divide into 4 slices", notes("", { dp = 1 }))
    assert.equal("10 layers do not divide into 8 slices", notes("--num-virtual-stages-per-pipeline-rank 2", { dp = 1 }))
    assert.equal("", notes("", { dp = 1, pp = 2 }))
    assert.equal("", notes("", { dp = 1, split = { 3, 3, 2, 2 } }))
    assert.equal("", notes("--decoder-last-pipeline-num-layers 1", { dp = 1 }))
    local both = "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"
    assert.equal("", notes(both, { dp = 1 }))
  end)

  it("that state virtual stages which no stage is a multiple of are named", function()
    local function note(layers, vp)
      local run = read(small:gsub("layers 4", "layers 40") .. "--pipeline-model-parallel-size 4 "
        .. "--num-layers-per-virtual-pipeline-stage " .. layers, { dp = 1 })
      assert.equal(vp, run.plan.vp)
      return table.concat(run.model.notes, "\n")
    end
    for layers, vp in pairs { [0] = 1, [-1] = 1, [30] = 1, [4] = 2 } do
      assert.equal(("--num-layers-per-virtual-pipeline-stage %d does not divide the 10 layers of a stage, which "
        .. "Megatron-LM refuses; ett takes vp = %d"):format(layers, vp), note(layers, vp))
    end
    assert.equal("", note(5, 2))
  end)

  it("that state virtual stages can be given as the word vp", function()
    local text = small .. "--pipeline-model-parallel-size 2 "
    for _, flag in ipairs { "--num-virtual-stages-per-pipeline-rank $V", "--num-layers-per-virtual-pipeline-stage ${V}",
      "--num-virtual-stages-per-pipeline-rank 1" } do
      local plan = read(text .. flag, { dp = 1, vp = 2 }).plan
      assert.same({ 2, "interleaved" }, { plan.vp, plan.schedule })
      if flag:find("$", 1, true) then assert.matches("or give vp=N", message(text .. flag, { dp = 1 }), 1, true) end
    end
    local plan = read(text .. "--num-layers-per-virtual-pipeline-stage 1", { dp = 1, vp = 1 }).plan
    assert.same({ 1, "1f1b" }, { plan.vp, plan.schedule })
  end)

  it("may have the values true and false", function()
    local plan = read(small .. "--tensor_model_parallel_size 2 --sequence_parallel true --bf16 false --fp16 true",
      { dp = 1 }).plan
    assert.same({ true, "fp16" }, { plan.sequence_parallel, plan.dtype })
  end)

  it("that the file leaves out are noted with the values taken, unless words state them", function()
    local batches = "--micro-batch-size (1), --global-batch-size (one micro-batch for each replica)"
    local fp32 = "--bf16 and --fp16 (fp32; if another file sets bf16, give dtype=bf16)"
    local function missing(more, plan, ending) return read(small .. more, plan, nil, ending).missing end
    assert.equal("not in the file: " .. batches .. ", --nnodes (1), " .. fp32, missing "--nproc-per-node 4")
    assert.equal("not in the file: " .. fp32,
      missing("--nproc-per-node 4 --nnodes 1 --micro-batch-size 2 --global-batch-size 8"))
    assert.equal("not in the file: --micro-batch-size (1)", missing("--fp16", { dp = 4, micro_batches = 2 }))
    assert.is_nil(missing("", { dp = 4, micro_batch = 1, global_batch = 8, dtype = "bf16" }))
    -- An export of an fp32 plan states the precision by naming none.
    assert.is_nil(missing("\n# ett: 4 devices, no stack", { micro_batch = 1, global_batch = 8 }))
    local yaml = "model:\n  num_layers: 4\n  hidden_size: 256\n  num_attention_heads: 4\n  vocab_size: 1000\n"
      .. "  encoder_seq_length: 128\n  max_position_embeddings: 128\n  micro_batch_size: 1\n  global_batch_size: 4\n"
    for more, said in pairs { [""] = "not in the file: " .. fp32, ["trainer:\n  precision: 32\n"] = false,
      ["trainer:\n  precision: bf16\n"] = false } do
      assert.equal(said, read(yaml .. more, { dp = 4 }, nil, ".yaml").missing or false, more)
    end
    local short = small:gsub("%-%-seq%-length %d+", "")
    assert.matches("missing --seq-length; give seq=N", message(short, { dp = 1 }), 1, true)
  end)

  it("follow a precision in words as if the file stated it", function()
    local fixed = { dp = 2, micro_batch = 1, global_batch = 4 }
    local fields = { "dtype", "gradient_dtype", "optimizer_bytes" }
    local function of(more, dtype)
      local plan, list = read(small .. more, random_plans.with(fixed, { dtype = dtype })).plan, {}
      for i, name in ipairs(fields) do list[i] = plan[name] end
      return list
    end
    assert.same({ "fp32", "fp32", 8 }, of "")
    assert.same(of "--bf16", of("", "bf16"))
    assert.same({ "bf16", "fp32", 12 }, of("", "bf16"))
    assert.same(of "--fp16", of("--bf16", "fp16"))
    assert.same(of "", of("--bf16 --fp8-format hybrid", "fp32"))
    assert.same(of "--bf16 --fp8-format hybrid", of("", "fp8"))
  end)

  it("of two precisions are noted", function()
    local run = read(small .. "--fp16 --bf16", { dp = 1 })
    assert.equal("bf16", run.plan.dtype)
    assert.same({ "--bf16 and --fp16 exclude each other in Megatron-LM; the estimate is of bf16" }, run.model.notes)
    assert.same({}, read(small .. "--bf16 false --fp16 true", { dp = 1 }).model.notes)
  end)

  it("are refused where a value is missing, wrong or not set", function()
    for wanted, text in pairs {
      ["FILE: missing --hidden-size, --num-attention-heads"] = "--num-layers 4",
      ["FILE: contains no flag that begins with --"] = "num-layers 4",
      ["FILE: --seq-length: the file does not define '$SEQ'; define it there, or give seq=N"] =
        "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --vocab-size 9 --seq-length $SEQ",
      ["FILE: --clip-grad: must be a number, got 'one'"] = small .. "--clip-grad one --nproc-per-node 1",
      ["FILE: --normalization: unknown value 'RMS'; did you mean 'RMSNorm'?; known are LayerNorm, RMSNorm"] =
        small .. "--normalization RMS",
      ["FILE: --micro-batch-size: needs a value"] = small .. "--micro-batch-size --bf16",
      ["FILE: --fp8-format: unknown value 'e4m4'; did you mean 'e4m3'?; known are e4m3, hybrid"] =
        small .. "--bf16 --fp8-format e4m4 --nproc-per-node 1",
      ["FILE: does not give the number of devices (--nnodes, --nproc-per-node); give dp=N"] = small,
      ["FILE: tp * pp * cp = 4 must divide its 6 devices; give dp=N for another number"] =
        small .. "--nproc-per-node 6 --tensor-model-parallel-size 4",
      ["FILE: has no --vocab-size (the tokenizer defines it); give vocab=N"] =
        "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128",
      ["FILE: --moe-layer-freq: must give 0 or 1 for each of 4 layers, got '[1]*3'"] =
        small .. "--num-experts 2 --moe-layer-freq [1]*3 --nproc-per-node 1",
    } do
      assert.equal(wanted, message(text))
    end
    assert.equal("plan: field 'dp' must be a positive integer, got 'x'", message(small, { dp = "x" }))
  end)

  it("of impossible numbers of stages do not place the loss", function()
    for _, stages in ipairs { "--pipeline-model-parallel-size 0.5",
      "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1e-7" } do
      assert.is_nil(read(small .. stages .. " --account-for-loss-in-pipeline-split", { dp = 1 }).plan.split)
    end
  end)

  it("of the first and last stage split the layers", function()
    local flags = small:gsub("layers 4", "layers 61") .. "--pipeline-model-parallel-size 8 "
    assert.same({ 6, 8, 8, 8, 8, 8, 8, 7 }, read(flags .. "--decoder-first-pipeline-num-layers 6 "
      .. "--decoder-last-pipeline-num-layers 7", { dp = 1 }).plan.split)
    assert.same({ 7, 8, 8, 8, 8, 8, 8, 7 }, read(flags:gsub("61", "62") .. "--account-for-embedding-in-pipeline-split "
      .. "--account-for-loss-in-pipeline-split", { dp = 1 }).plan.split)
    assert.equal("FILE: --account-for-loss-in-pipeline-split: the 8 chunks of the pipeline must divide 62 layers (61 "
      .. "of the model)", message(flags .. "--account-for-loss-in-pipeline-split", { dp = 1 }))
  end)

  it("of instances of the distributed optimizer shard over the ranks of an instance, and back", function()
    local flags = small .. "--use-distributed-optimizer --num-distributed-optimizer-instances 4 "
    assert.equal(4, read(flags, { dp = 16 }).plan.shard)
    assert.is_nil(read(small .. "--num-distributed-optimizer-instances 4", { dp = 16 }).plan.shard)
    assert.equal("FILE: --num-distributed-optimizer-instances = 4 must divide the 6 data-parallel ranks",
      message(flags, { dp = 6 }))
    assert.matches("= 1.5 must divide the 6 data-parallel ranks", message(flags:gsub("4 $", "1.5 "), { dp = 6 }), 1,
      true)
    local lines, left_out = export_of { dp = 8, zero = 1, shard = 2, stack = "megatron" }
    assert.matches("--num-distributed-optimizer-instances 4", lines, 1, true)
    assert.same({}, left_out)
    assert.is_nil(export_of { dp = 8, zero = 1, shard = 8, stack = "megatron" }:find("optimizer-instances", 1, true))
  end)
end)

describe("a YAML file of NeMo", function()
  it("may have lists of tables, functions of references, FSDP and the attention of other models", function()
    local common = [[
defaults:
  - _self_
  - optional tp_overlap@model.ub_tp_comm_overlap_cfg: ub_cfg
trainer: { devices: 8, num_nodes: 2, precision: bf16 }
model:
  encoder_seq_length: 2048
  num_layers: 4
  hidden_size: 256
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}
  num_attention_heads: 4
  own_list: [ { a: 1 } ]
]]
    local function of(lines) return read(common .. lines, nil, { vocab = 1000 }, ".yaml") end
    local run = of "  position_embedding_type: ALiBi\n  fsdp: False\n  fsdp_sharding_strategy: full\n"
    assert.same({ 1024, "alibi", 0, 16 }, { run.model.hyper.ffn, run.model.hyper.position, run.plan.zero, run.plan.dp })
    assert.matches("unknown flags, ignored: --own-list", table.concat(run.model.notes, "\n"), 1, true)
    local p = of("  fsdp: True\n  fsdp_sharding_strategy: grad\n").plan
    assert.same({ 3, false, "megatron_fsdp" }, { p.zero, p.reshard, p.stack }) -- SHARD_GRAD_OP
    for _, strategy in ipairs { "full", "hybrid", "null" } do
      run = of("  fsdp: True\n  fsdp_sharding_strategy: " .. strategy .. "\n")
      p = run.plan
      assert.same({ 3, "nil", "megatron_fsdp" }, { p.zero, tostring(p.reshard), p.stack })
      local notes = table.concat(run.model.notes, "\n")
      assert.equal(strategy == "hybrid", notes:find("hybrid counts as full. The plan field shard", 1, true) ~= nil)
    end
    assert.matches("fsdp_sharding_strategy: unknown value 'nothing'", message(common
      .. "  fsdp: True\n  fsdp_sharding_strategy: nothing\n", nil, { vocab = 1000 }, ".yaml"), 1, true)
    run = read(small .. "--use-megatron-fsdp --fsdp-sharding-strategy grad", { dp = 2 })
    assert.matches("unknown flags, ignored: --fsdp-sharding-strategy", table.concat(run.model.notes, "\n"), 1, true)
    local function reduced(precision, value, fsdp)
      local lines = ("  fsdp: %s\n  fsdp_grad_reduce_dtype: %s\n"):format(fsdp or "True", value)
      local file = common:gsub("precision: bf16", "precision: " .. precision) .. lines
      return read(file, nil, { vocab = 1000 }, ".yaml").plan.gradient_dtype
    end
    assert.same({ "bf16", "fp32", "bf16", "fp32", "fp16" }, { reduced("bf16", "bf16"), reduced("bf16", "32"),
      reduced("bf16", "null"), reduced("16-mixed", "32"), reduced("16-mixed", "16") })
    assert.equal("fp32", reduced("bf16", "bf16", "False"))
    local h = of("  mcore_customization_config: { new_decoder_architecture: false, parallel_attention: true }\n")
      .model.hyper
    assert.same({ true, true }, { h.parallel_block, h.shared_norm })
    assert.matches("the file does not define '${.kv_channels}'", message(common
      .. "  kv_channels: ${.kv_channels}\n", nil, { vocab = 1000 }, ".yaml"), 1, true)
  end)

  it("has states by megatron_amp_O2 and the optimizer", function()
    local common = "trainer: { devices: 8, num_nodes: 1, precision: %s }\nmodel:\n  num_layers: 2\n  hidden_size: 64\n"
      .. "  num_attention_heads: 2\n  seq_length: 32\n  vocab_size: 100\n  max_position_embeddings: 32\n%s"
      .. "  optim: {name: %s}\n"
    local function of(lines, name, precision)
      local run = read(common:format(precision or "bf16", lines, name), nil, nil, ".yaml")
      local p = run.plan
      return { p.optimizer_bytes, p.fused_accumulation, p.gradient_dtype }, table.concat(run.model.notes, "\n")
    end
    local on, off = "  megatron_amp_O2: true\n", "  megatron_amp_O2: false\n"
    assert.same({ 10, true, "fp32" }, (of(on, "distributed_fused_adam")))
    assert.same({ 12, true, "fp32" }, (of(on .. "  fp8: true\n  fp8_params: true\n", "distributed_fused_adam")))
    -- Moments in bf16, without master weights; beside fp8 weights these have 16 bits, too.
    for _, name in ipairs { "bf16", "torch.bfloat16" } do
      assert.same({ 4, true, "fp32" }, (of(on, "distributed_fused_adam, dtype: " .. name)))
    end
    assert.same({ 6, true, "fp32" }, (of(on .. "  fp8: true\n  fp8_params: true\n",
      "distributed_fused_adam, dtype: bf16")))
    assert.same({ 10, true, "fp32" }, (of(on, "distributed_fused_adam, dtype: fp32")))
    assert.same({ 12, true, "fp32" }, (of(on, "mcore_distributed_optim, dtype: bf16")))
    assert.same({ 12, true, "fp32" }, (of(on, "fused_adam")))
    assert.same({ 12, true, "fp32" }, (of(on, "mcore_distributed_optim")))
    assert.same({ 10, false, "bf16" }, (of(off, "distributed_fused_adam, grad_sync_dtype: bf16")))
    local wide = "megatron_amp_O2: false keeps weights in fp32. The estimate counts their lower halves as optimizer "
      .. "states"
    for name, more in pairs { fused_adam = ", and no copies", distributed_fused_adam = ", which it shards" } do
      for _, precision in ipairs { "bf16", "16" } do
        assert.same({ of(off, name, precision) }, { of("", name, precision) }) -- NeMo 1's default
        local found, notes = of(off, name, precision)
        assert.same({ 10, false, "fp32" }, found)
        assert.matches(wide .. more, notes, 1, true)
      end
    end
    assert.is_nil(select(2, of(on, "fused_adam")):find "O2")
  end)

  it("says which model it is", function()
    local text = "model:\n  num_layers: 4\n  hidden_size: 64\n  num_attention_heads: 2\n  encoder_seq_length: 32\n"
      .. "  vocab_size: 100\n"
    assert.equal("gpt", read(text .. "name: megatron_gpt\n", { dp = 1 }, nil, ".yaml").architecture)
    assert.matches("name: megatron_bert: ett reads the flags of GPT and Mamba models only",
      message(text .. "exp_manager:\n  name: megatron_bert\n", { dp = 1 }, nil, ".yaml"), 1, true)
    local run = read(text .. "  hybrid_override_pattern: null\n  ngroups_mamba: 4\nname: megatron_mamba\n", { dp = 1 },
      nil, ".yaml")
    assert.same({ "hybrid", { "mamba2", "mamba2", "mamba2", "mamba2" }, 4 }, { run.architecture,
      run.model.hyper.layer_types, run.model.hyper.ssm_groups })
  end)

  it("may name its attention as a value of an enumeration", function()
    local run = read("model:\n  num_layers: 2\n  hidden_size: 64\n  num_attention_heads: 2\n  seq_length: 32\n"
      .. "  vocab_size: 100\n  attention_backend: AttnBackend.unfused\n", { dp = 1 }, nil, ".yaml")
    assert.equal("fused_softmax", run.model.hyper.attention)
  end)

  it("is read by its keys, references and activations", function()
    local run = read([[
name: mine
trainer: { devices: 8, num_nodes: 4, precision: bf16, gradient_clip_val: 1.0, max_steps: 100 }
exp_manager: { exp_dir: null }
model:
  micro_batch_size: 2
  global_batch_size: 128
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 2
  virtual_pipeline_model_parallel_size: null
  sequence_parallel: true
  encoder_seq_length: 4096
  max_position_embeddings: ${.encoder_seq_length}
  seq_length: ${model.encoder_seq_length}
  num_layers: 32
  hidden_size: 4096
  ffn_hidden_size: 11008
  num_attention_heads: 32
  num_query_groups: 8
  hidden_dropout: 0.0
  attention_dropout: 0.0
  normalization: rmsnorm
  activation: fast-swiglu
  bias: false
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  activations_checkpoint_granularity: selective
  gradient_accumulation_fusion: false
  grad_allreduce_chunk_size_mb: 125
  own_field: 3
  data: { seq_length: 2048, num_workers: 2 }
  optim: { name: mcore_distributed_optim, lr: 2e-4, sched: { name: CosineAnnealing } }
]], nil, { vocab = 32000 }, ".yaml")
    local h, p = run.model.hyper, run.plan
    assert.same({ 32, 11008, 8, "rms_norm", "rope", true, false, false, 32000 }, { h.layers, h.ffn, h.kv_heads, h.norm,
      h.position, h.gated_mlp, h.bias, h.tied_embeddings, h.vocab })
    assert.same({ 4, 2, 4, 2, 128, 4096, "bf16", "selective", 1, true, false }, { p.tp, p.pp, p.dp, p.micro_batch,
      p.global_batch, p.seq, p.dtype, p.recompute, p.zero, p.sequence_parallel, p.fused_accumulation })
    assert.equal("unknown flags, ignored: --own-field", run.model.notes[1])
    local llama = model_module.new("llama", { layers = 32, hidden = 4096, heads = 32, kv_heads = 8, ffn = 11008,
      vocab = 32000 })
    local parameters = require("ett.model.architecture").parameters
    local whole = read("ARGS:\n  --num-layers: 4\n  --hidden-size: 256\n  --num-attention-heads: 4\n  --swiglu: true\n"
      .. "  --vocab-size: 1000\n  --seq-length: 128\n  --fp16: false\n", { dp = 1 }, nil, ".yaml")
    assert.same({ 4, true, "fp32" }, { whole.model.hyper.layers, whole.model.hyper.gated_mlp, whole.plan.dtype })
    assert.equal(parameters(llama), parameters(run.model))
  end)
end)

describe("a plan as Megatron-LM's flags", function()
  it("gives the same step when it is read back, to the last digit", function()
    local pick, compared = random_plans.generator(31), 0
    local names = { "llama3-8b", "llama2-13b", "gpt3-6.7b", "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v2-lite",
      "phi-3-medium" }
    for _ = 1, 30 do
      local model = model_module.new(pick(names), { layers = 24 })
      local moe, pp = model.hyper.experts ~= nil, pick { 1, 2, 4 }
      local zero = pp == 1 and pick { 0, 1, 2, 3 } or pick { 0, 1 }
      local overlap = zero == 3 or pick { true, false }
      local plan = { seq = math.min(pick { 2048, 4096 }, model.hyper.max_positions or 4096), tp = pick { 1, 2 },
        pp = pp, dp = pick { 8, 16 }, ep = moe and 8 or 1,
        cp = pick { 1, 2 }, cp_method = "ring", micro_batch = pick { 1, 2 }, micro_batches = pick { 8, 16 },
        dtype = pick { "bf16", "bf16", "fp16", "fp8", "fp32" }, gradient_dtype = "fp32", zero = zero,
        recompute = pick { "none", "selective", "full" }, overlap_gradients = overlap, overlap_parameters = overlap,
        fused_accumulation = pick { true, false }, stack = zero == 3 and "megatron_fsdp" or "megatron" }
      if not moe then plan.rank_order = pick { "tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp" } end
      if moe and pick { true, false } then plan.capacity_factor, plan.pad_to_capacity = 1.5, pick { true, false } end
      plan.optimizer_bytes = plan.dtype == "fp32" and 8 or zero == 0 and 12
        or plan.dtype == "bf16" and pick { 6, 8, 12 } or pick { 8, 12 }
      if plan.tp > 1 then plan.sequence_parallel = pick { true, false } end
      if pp > 1 and pick { true, false } then
        plan.schedule, plan.vp, plan.overlap_sends = "interleaved", 24 // pp >= 6 and 2 or 1, pick { true, false }
        if plan.vp == 1 then plan.schedule, plan.overlap_sends = "1f1b", false end
      end
      local ok, e = pcall(estimate.new, { model = model, plan = plan, cluster = "dgx_h100" })
      if ok then
        local text, left_out = export.text("megatron", model, e.plan)
        for _, sentence in ipairs(left_out) do
          assert.is_truthy(sentence:find ": Megatron%-LM refuses " or sentence:find "experts in bf16 only", sentence)
        end
        local run = read(text, { dp = plan.dp })
        local again = estimate.new { model = run.model, plan = run.plan, cluster = "dgx_h100" }
        assert.equal(e.model.parameters, again.model.parameters, text)
        assert.equal(e.step_seconds, again.step_seconds, text)
        assert.equal(e.memory_bytes, again.memory_bytes, text)
        compared = compared + 1
      end
    end
    assert.is_true(compared >= 20, compared)
  end)

  it("is the same in a shell, in a folder with files of any name", function()
    local words = {}
    for _, name in ipairs { "deepseek-v3", "nemotron-h-8b" } do
      local model = model_module.new(name)
      local plan = require("ett.plan").new({ seq = 512, micro_batches = 2, dp = 8 }, model,
        require("ett.profile.cluster").get "dgx_h100")
      require("ett.base.folder").within(function(folder)
        local list = export.text("megatron", model, plan):gsub("#[^\n]*\n", ""):gsub("\n", " ")
        for _, file in ipairs { "0", "1", "M-x" } do assert(io.open(folder .. "/" .. file, "w")):close() end
        local pipe = io.popen(("cd '%s' && printf '%%s\\n' %s"):format(folder, list))
        for line in pipe:lines() do words[#words + 1] = line end
        pipe:close()
      end)
    end
    local text = table.concat(words, " ")
    assert.matches("%-%-moe%-layer%-freq %[0,0,0,1,1,", text)
    assert.matches("%-%-hybrid%-override%-pattern M%-M%-", text)
  end)

  it("reads back Llama 4's norms without gains", function()
    local model = model_module.new("llama3-8b", { qk_l2_norm = true })
    local e = estimate.new { model = model, cluster = "dgx_h100", plan = { seq = 512, micro_batches = 2,
      stack = "megatron" } }
    local text, left_out = export.text("megatron", model, e.plan)
    assert.same({}, left_out)
    local run = read(text, { dp = 1 })
    assert.equal(e.step_seconds, estimate.new({ model = run.model, plan = run.plan, cluster = "dgx_h100" })
      .step_seconds)
    local latent = read(text .. " --multi-latent-attention", { dp = 1 }).model.hyper
    assert.is_nil(latent.qk_l2_norm)
  end)

  it("reads back Muon, and lists what Megatron-LM refuses with it", function()
    local model, apart = model_module.new "llama3-8b", { overlap_gradients = false, overlap_parameters = false }
    for fields, missing in pairs { [{ zero = 0 }] = "", [{ zero = 1, gradient_all_reduce = true }] = "",
      [{ zero = 1 }] = "gradient_all_reduce = false: Megatron-LM all-reduces gradients with dist_muon",
      [{ zero = 1, gradient_all_reduce = true, overlap_gradients = true }] = "overlap_gradients or overlap_parameters: "
        .. "older releases of Megatron-LM refuse them with Muon",
      [{ zero = 1, gradient_all_reduce = true, optimizer = "adam" }] = "gradient_all_reduce = true: Megatron-LM does "
        .. "so with dist_muon alone",
      [{ zero = 1, gradient_all_reduce = true, optimizer_bytes = 8 }] = "optimizer_bytes = 8: Megatron-LM needs the "
        .. "distributed optimizer (zero = 1), which it refuses with Muon" } do
      local plan = require "ett.base.merged"({ seq = 512, micro_batches = 2, tp = 2, dp = 4, stack = "megatron",
        optimizer = "muon", muon_steps = 4, muon_tensor = "duplicated" }, apart, fields)
      local e = estimate.new { model = model, cluster = "dgx_h100", plan = plan }
      local text, left_out = export.text("megatron", model, e.plan)
      assert.equal(missing, table.concat(left_out, "; "))
      local run = read(text)
      if missing == "" then
        assert.is_nil(text:find "distributed")
        local again = estimate.new { model = run.model, plan = run.plan, cluster = "dgx_h100" }
        assert.same({ e.step_seconds, e.memory_bytes }, { again.step_seconds, again.memory_bytes })
        assert.same({}, again.warnings)
      end
    end
  end)

  it("reads back with its devices and its stack", function()
    local model = model_module.new "llama3-8b"
    for _, stack in ipairs { false, "plain", "torchtitan", "megatron" } do
      local given = { seq = 2048, tp = 2, dp = 12, micro_batches = 2, stack = stack or nil }
      local e = estimate.new { model = model, cluster = "dgx_h100", plan = given }
      local text = export.text("megatron", model, e.plan)
      local run = read(text)
      assert.same({ 12, stack or nil }, { run.plan.dp, run.plan.stack })
      local again = estimate.new { model = run.model, plan = run.plan, cluster = "dgx_h100" }
      -- The flags state what the plan left open.
      for name, value in pairs(run.plan) do given[name] = given[name] or value end
      e = estimate.new { model = model, cluster = "dgx_h100", plan = given }
      for _, name in ipairs { "step_seconds", "low_seconds", "high_seconds", "memory_bytes" } do
        assert.equal(e[name], again[name], name)
      end
      assert.same({ 4, "megatron" }, { read("--nnodes 1 --nproc-per-node 8\n" .. text, { stack = "megatron" }).plan.dp,
        read(text, { stack = "megatron" }).plan.stack })
    end
  end)

  it("states stages with unlike numbers of layers", function()
    local function both(name, plan, flags, more)
      plan.seq, plan.micro_batches, plan.dp = 1024, 16, 8
      local model = model_module.new(name, more)
      local e = estimate.new { model = model, cluster = "dgx_h100", plan = plan }
      local text, left_out = export.text("megatron", model, e.plan)
      assert.same({}, left_out)
      local found = {}
      for line in text:gmatch "[^\n]+" do
        if line:find "pipeline%-num" or line:find "layout" or line:find "virtual" then found[#found + 1] = line end
      end
      assert.same(flags, found)
      local run = read(text)
      local again = estimate.new { model = run.model, plan = run.plan, cluster = "dgx_h100" }
      assert.same({ e.step_seconds, e.memory_bytes }, { again.step_seconds, again.memory_bytes })
    end
    both("llama3-8b", { pp = 4 }, {})
    local predicts = { mtp_layers = 2 }
    both("qwen3-30b-a3b", { pp = 4, ep = 8, split = { 16, 16, 16, 0 }, mtp_slice = 3 },
      { "--pipeline-model-parallel-layout 'Et*16|t*16|t*16mm|L'" }, predicts)
    both("qwen3-30b-a3b", { pp = 4, ep = 8, vp = 2, schedule = "interleaved", split = { 8, 8, 8, 8, 8, 8, 0, 0 },
      mtp_slice = 7, recompute = "full" }, { "--pipeline-model-parallel-layout 'Et*8|(t*8|)*5mm|L'" }, predicts)
    both("qwen3-30b-a3b", { pp = 4, ep = 8, split = { 12, 12, 12, 12 }, recompute = "full", recompute_layers = 3 }, {},
      predicts)
    both("llama3-8b", { pp = 4, split = { 7, 9, 9, 7 } },
      { "--decoder-first-pipeline-num-layers 7", "--decoder-last-pipeline-num-layers 7" })
    both("llama3-8b", { pp = 4, split = { 6, 9, 10, 7 } }, { "--pipeline-model-parallel-layout 'Et*6|t*9|t*10|t*7L'" })
    both("llama3-8b", { pp = 6 }, { "--pipeline-model-parallel-layout 'Et*5|(t*6|)*2(t*5|)*2t*5L'" })
    both("llama3-8b", { pp = 4, vp = 2, schedule = "interleaved", split = { 1, 5, 5, 5, 5, 5, 5, 1 } },
      { "--pipeline-model-parallel-layout 'Et|(t*5|)*6tL'" })
    both("deepseek-v3", { pp = 8, ep = 8, split = { 0, 8, 8, 8, 9, 9, 9, 10 } },
      { "--pipeline-model-parallel-layout 'E|(t*8|)*3(t*9|)*3t*10L'" })
    both("qwen3-235b-a22b", { pp = 8, ep = 8, vp = 12, schedule = "interleaved" },
      { "--pipeline-model-parallel-layout 'E|(t|)*94L'" })
  end)

  it("states sinks, clamps and scaled positions of gpt-oss", function()
    local model = model_module.new "gpt-oss-20b"
    local e = estimate.new { model = model, cluster = "dgx_h100",
      plan = { seq = 4096, ep = 8, dp = 8, micro_batches = 4, stack = "megatron_moe" } }
    local text, left_out = export.text("megatron", model, e.plan)
    assert.same({}, left_out)
    local run = read(text)
    local again = estimate.new { model = run.model, plan = run.plan, cluster = "dgx_h100" }
    assert.same({ e.step_seconds, e.memory_bytes }, { again.step_seconds, again.memory_bytes })
    assert.is_nil(read((text:gsub("learnable", "vanilla"))).model.hyper.attention_sinks)
    assert.matches("--softmax-type off-by-one is modelled as vanilla",
      table.concat(read((text:gsub("learnable", "off-by-one"))).model.notes, "\n"), 1, true)
  end)

  it("names what Megatron-LM refuses with multi-token prediction", function()
    local model = model_module.new("qwen3-30b-a3b", { mtp_layers = 1 })
    local function left_out(plan)
      local all = { seq = 1024, micro_batches = 16, dp = 8, ep = 8, pp = 4 }
      for name, value in pairs(plan) do all[name] = value end
      return select(2, export.text("megatron", model, estimate.new { model = model, cluster = "dgx_h100",
        plan = all }.plan))
    end
    assert.same({ "mtp_slice = 1: Megatron-LM refuses multi-token prediction before the last chunks, and on the first "
      .. "stage" }, left_out { split = { 48, 0, 0, 0 }, mtp_slice = 1 })
    assert.same({ "recompute_layers = 3: Megatron-LM refuses groups of several layers with multi-token prediction" },
      left_out { recompute = "full", recompute_layers = 3, recompute_method = "uniform" })
  end)

  it("reproduces hybrids by their pattern of layers", function()
    for _, case in ipairs { { "nemotron-h-8b" }, { "mamba2-2.7b" }, { "nemotron-h-8b", { layers = 26 } } } do
      local model = model_module.new(case[1], case[2])
      local plan = { seq = 1024, micro_batches = 2, stack = "megatron" }
      local e = estimate.new { model = model, plan = plan, cluster = "dgx_h100" }
      local text, left_out = export.text("megatron", model, e.plan)
      local own = #left_out == 0 and model
        or model_module.new(case[1], { scan_chunk = 128, layers = (case[2] or {}).layers })
      local again = read(text, { dp = 1 })
      assert.equal(architecture.parameters(model), architecture.parameters(again.model))
      assert.equal(estimate.new({ model = own, plan = plan, cluster = "dgx_h100" }).step_seconds,
        estimate.new({ model = again.model, plan = again.plan, cluster = "dgx_h100" }).step_seconds)
      assert.same(case[1] == "mamba2-2.7b" and { "scan_chunk = 256: Megatron-LM's is 128" } or {}, left_out)
    end
  end)

  it("names the modules of selective recomputation that Megatron-LM has", function()
    local model = model_module.new "llama3-8b"
    local function flags(modules)
      local e = estimate.new { model = model, cluster = "dgx_h100", plan = { seq = 2048, micro_batches = 4,
        recompute = "selective", recompute_modules = modules } }
      local text, left_out = export.text("megatron", model, e.plan)
      return text:match "%-%-recompute%-modules ([%w_ ]*%w)", text:find("--recompute-granularity selective", 1, true),
        #left_out
    end
    assert.equal("moe layernorm", (flags { "moe", "layernorm" }))
    local modules, selective, left_out = flags { "mlp_act", "layernorm" }
    assert.same({ "layernorm", true, 1 }, { modules, selective ~= nil, left_out })
    modules, selective, left_out = flags { "mlp_act" }
    assert.same({ nil, nil, 1 }, { modules, selective, left_out })
  end)

  it("lists the settings without a flag", function()
    local e = estimate.new { model = model_module.new "gemma2-2b", cluster = "dgx_h100",
      plan = { seq = 2048, pp = 2, micro_batches = 4, schedule = "gpipe", optimizer_bytes = 4, serial_sends = true } }
    local text, left_out = export.text("megatron", model_module.new "gemma2-2b", e.plan)
    assert.same({ "activation = 'geglu': Megatron-LM's quick-geglu is written",
      "post_norms: not exported", "schedule = 'gpipe': Megatron-LM has no flag for it",
      "optimizer_bytes = 4: the flags mean Adam's 12 bytes", "serial_sends = true: this format has no field for it" },
      left_out)
    assert.equal("# not stated here: activation = 'geglu': Megatron-LM's quick-geglu is written",
      text:match "^[^\n]*")
    local quantised = estimate.new { model = model_module.new "llama3-8b", cluster = "dgx_h100", plan = { seq = 2048,
      micro_batches = 4, dtype = "fp8", stack = "megatron:quantised_weights=single" } }
    text, left_out = export.text("megatron", model_module.new "llama3-8b", quantised.plan)
    assert.matches("--fp8-param-gather", text, 1, true)
    assert.same({ "quantised_weights=single: set disable_parameter_transpose_cache of TransformerConfig" }, left_out)
    local split = { seq = 2048, tp = 2, pp = 2, micro_batches = 4, sequence_parallel = true, overlap_tensor = true }
    for schedule, said in pairs { ["1f1b"] = {}, zb_h1 = { "schedule = 'zb_h1': Megatron-LM has no flag for it",
      "overlap_tensor: Transformer Engine refuses it beside delayed weight gradients, unless with "
        .. "--tp-comm-overlap-rs-dgrad" }, chimera = { "schedule = 'chimera': Megatron-LM has no flag for it" } } do
      split.schedule = schedule
      local model = model_module.new "llama3-8b"
      local plan = estimate.new({ model = model, plan = split, cluster = "dgx_h100" }).plan
      assert.same(said, (select(2, export.text("megatron", model, plan))))
    end
    local sharded = { seq = 2048, dp = 2, zero = 3, micro_batches = 4, overlap_gradients = true }
    for overlap, said in pairs { [false] = { "overlap_gradients or overlap_parameters = false: Megatron FSDP overlaps "
      .. "both when it shards parameters" }, [true] = {} } do
      sharded.overlap_parameters = overlap
      local model = model_module.new "llama3-8b"
      local plan = estimate.new({ model = model, cluster = "dgx_h100", plan = sharded }).plan
      local _, missing = export.text("megatron", model, plan)
      assert.same(said, missing)
    end
    local unusual = estimate.new({ model = model_module.new "llama3-8b", cluster = "dgx_h100",
      plan = { seq = 2048, dp = 2, micro_batches = 4, bucket_bytes = 4e6 } }).plan
    assert.same({ "bucket_bytes = 4e+06: Megatron-LM has one bucket if gradients do not overlap" },
      select(2, export.text("megatron", model_module.new "llama3-8b", unusual)))
  end)

  it("states the positions, which Megatron-LM requires with rotary ones, too", function()
    local function of(name, seq, hyper)
      local model = model_module.new(name, hyper)
      local plan = estimate.new({ model = model, cluster = "dgx_h100", plan = { seq = seq, micro_batches = 1 } }).plan
      local text, left_out = export.text("megatron", model, plan)
      return tonumber(text:match "%-%-max%-position%-embeddings (%d+)"), left_out
    end
    assert.same({ 4096, {} }, { of("llama3-8b", 4096) })
    assert.same({ 1024, {} }, { of("gpt2", 512) })
    assert.same({ 1024, { "seq = 2048: Megatron-LM refuses sequences above 1024 learned positions" } },
      { of("gpt2", 2048) })
    local unknown = { layers = 2, hidden = 64, heads = 2, vocab = 100, position = "learned" }
    local number, missing = of("gpt", 32, unknown)
    assert.is_nil(number)
    assert.same({ "max_positions: unknown; Megatron-LM requires --max-position-embeddings" }, missing)
  end)

  it("states the flags that sharded, narrow and offloaded states need", function()
    local distributed, aware = "--use-distributed-optimizer", "--use-precision-aware-optimizer"
    local fsdp = "--use-megatron-fsdp --ckpt-format fsdp_dtensor"
    local needed = "Megatron-LM needs the distributed optimizer (zero = 1)"
    for _, case in ipairs { { {}, "" }, { { zero = 1 }, distributed }, { { zero = 2 }, distributed .. " " .. fsdp },
      { { zero = 3, stack = "megatron_fsdp" }, distributed .. " " .. fsdp },
      { { zero = 1, offload_optimizer = 1 }, distributed .. " --optimizer-cpu-offload " .. aware },
      { { offload_optimizer = 1 }, "", "offload_optimizer = 1: " .. needed },
      { { optimizer_bytes = 8 }, "", "optimizer_bytes = 8: " .. needed },
      { { optimizer_bytes = 8, zero = 1 }, distributed .. " " .. aware },
      { { optimizer_bytes = 8, zero = 2 }, distributed .. " " .. fsdp .. " " .. aware },
      { { optimizer_bytes = 8, zero = 3, stack = "megatron_fsdp" }, distributed .. " " .. fsdp .. " " .. aware } } do
      case[1].dp = 8
      local text, left_out = export_of(case[1])
      local found = {}
      for line in text:gmatch "[^\n]+" do
        if line:find "^%-%-use%-[dpm]" or line:find "cpu%-offload" or line:find "ckpt" then found[#found + 1] = line end
      end
      assert.equal(case[2], table.concat(found, " "))
      assert.same({ case[3] }, left_out)
    end
  end)

  it("lists plans that Megatron-LM refuses, and omits flags without effect that it refuses", function()
    local grouped = ": Megatron-LM has grouped products of experts in bf16 only"
    local pipe = { pp = 2, vp = 2, schedule = "interleaved", overlap_sends = false }
    for _, case in ipairs {
      { "mixtral-8x7b", { dtype = "fp16", dp = 8, ep = 8 },
        "dtype = 'fp16': Megatron-LM refuses it with expert parallelism" },
      { "mixtral-8x7b", { dtype = "fp16" }, "dtype = 'fp16'" .. grouped },
      { "mixtral-8x7b", { dtype = "fp32" }, "dtype = 'fp32'" .. grouped },
      { "mixtral-8x7b", { dp = 8, ep = 8 } },
      { "mixtral-8x7b", { tp = 2 },
        "sequence_parallel = false: Megatron-LM refuses experts with tensor parallelism without it" },
      { "mixtral-8x7b", { tp = 2, sequence_parallel = true } }, { "llama3-8b", { tp = 2 } },
      { "llama3-8b", pipe, "overlap_sends = false: Megatron-LM refuses it with two interleaved stages" },
      { "llama3-8b", { pp = 4, vp = 2, schedule = "interleaved", overlap_sends = false } },
      { "llama3-8b", { dp = 8, zero = 1, overlap_parameters = true, overlap_gradients = false },
        "overlap_parameters: Megatron-LM gathers beside computing only with overlap_gradients" },
      { "llama3-8b", { dp = 8, zero = 0, overlap_parameters = true, overlap_gradients = true } },
      { "llama3-8b", { dp = 8, zero = 1, overlap_parameters = true, overlap_gradients = true }, nil,
        "overlap%-param%-gather" },
      { "llama3-8b", { tp = 2, dp = 2, rank_order = "dp-tp-cp-ep-pp" },
        "rank_order = 'dp-tp-cp-ep-pp': Megatron-LM has no flag for it" },
      { "llama3-8b", { tp = 2, overlap_tensor = true } },
      { "llama3-8b", { overlap_tensor = true, sequence_parallel = true } },
      { "llama3-8b", { tp = 2, overlap_tensor = true, sequence_parallel = true }, nil, "tp%-comm%-overlap" } } do
      local text, left_out = export_of(case[2], case[1])
      assert.same({ case[3] }, left_out)
      for _, flag in ipairs { "overlap%-param%-gather", "tp%-comm%-overlap" } do
        assert.equal(case[4] == flag, text:find("%-%-" .. flag) ~= nil, text)
      end
      local sixteen = case[1] ~= "llama3-8b" and case[2].dtype == nil
      assert.equal(sixteen, text:find "\n%-%-moe%-grouped%-gemm" ~= nil, text)
    end
  end)

  it("states the norms of latent attention", function()
    assert.matches("\n%-%-qk%-layernorm\n", (export_of({ dp = 8, ep = 8 }, "deepseek-v2-lite")))
    assert.is_nil((export_of({}, "llama3-8b"):find "qk%-layernorm"))
  end)

  it("states the CUDA graphs of its own stacks, which exclude full recomputation and unpadded experts", function()
    local refused = "graphs: Megatron-LM has no CUDA graphs of whole layers with "
    for _, case in ipairs { { "llama3-8b", { stack = "megatron" }, false }, { "llama3-8b", {}, false },
      { "llama3-8b", { stack = "plain" }, false }, { "llama3-8b", { stack = "megatron:graphs" }, true },
      { "mixtral-8x7b", { stack = "megatron_bridge:graphed=" }, false },
      { "llama3-8b", { stack = "megatron:graphs", recompute = "full" }, false, "full recomputation" },
      { "mixtral-8x7b", { stack = "megatron:graphed=attn+moe_router" }, true },
      { "mixtral-8x7b", { stack = "megatron:graphs" }, false, "unpadded experts" },
      { "mixtral-8x7b", { stack = "megatron:graphs", capacity_factor = 1, pad_to_capacity = true }, true } } do
      local text, left_out = export_of(case[2], case[1])
      assert.equal(case[3], text:find("--cuda-graph-impl transformer_engine", 1, true) ~= nil, text)
      assert.same(case[4] and { refused .. case[4] } or {}, left_out)
    end
    assert.matches("--cuda-graph-scope attn moe_router\n", (export_of({ stack = "megatron:graphed=attn+moe_router" },
      "mixtral-8x7b")), 1, true)
  end)

  it("states the CUDA graphs of modules beside recomputation of others", function()
    local refused = "graphs: older releases of Megatron-LM have no CUDA graphs of %s with recomputation of %s"
    for _, case in ipairs { { "graphed=moe_router", { "moe_act" } }, { "graphed=attn", { "layernorm", "moe_act" } },
      { "graphed=moe_router", { "core_attn" } }, { "graphed=attn", nil, "attn", "core_attn" },
      { "graphed=attn+moe_router", { "moe_act", "shared_experts" }, "moe_router", "shared_experts" },
      { "graphed=attn+mlp+moe_router", { "layernorm" }, "attn mlp moe_router", "layernorm" },
      { "graphs", { "moe_act", "mlp" }, "whole layers", "moe_act mlp" } } do
      local text, left_out = export_of({ stack = "megatron:" .. case[1], recompute = "selective", dp = 8, ep = 8,
        recompute_modules = case[2], capacity_factor = 1, pad_to_capacity = true }, "deepseek-v2-lite")
      assert.equal(case[3] == nil, text:find("--cuda-graph-impl transformer_engine", 1, true) ~= nil, case[1])
      assert.same(case[3] and { refused:format(case[3], case[4]) } or {}, left_out)
    end
    assert.same({ "graphs: Megatron-LM has no CUDA graphs of modules with full recomputation" }, select(2, export_of(
      { stack = "megatron:graphed=moe_router", recompute = "full" }, "mixtral-8x7b")))
  end)

  it("reports each public model that its flags do not reproduce", function()
    local different, cluster = 0, require("ett.profile.cluster").get "dgx_h100"
    local plan_module = require "ett.plan"
    for _, name in ipairs(require("ett.base.find").names "lua/models") do
      local model = model_module.new(name)
      local plan = plan_module.new({ seq = 512, micro_batches = 2, dp = 8 }, model, cluster)
      local text, left_out = export.text("megatron", model, plan)
      local again = read(text, { dp = 8 }).model
      if architecture.parameters(again) ~= architecture.parameters(model) then
        different = different + 1
        assert.is_true(#left_out > 0, name)
      end
    end
    assert.is_true(different > 0)
    local t5 = model_module.new "t5-base"
    local plan = estimate.new { model = t5, cluster = "dgx_h100", plan = { seq = 512, micro_batches = 1 } }.plan
    local _, left_out = export.text("megatron", t5, plan)
    assert.equal("architecture = 'encoder_decoder': the flags describe a decoder of attention and MLPs", left_out[1])
  end)
end)

describe("a plan for other trainers", function()
  local function clean(plan)
    return estimate.new { model = model_module.new "llama3-8b", plan = plan, cluster = "dgx_h100" }.plan
  end
  local model = model_module.new "llama3-8b"

  it("as torchtitan's TOML has its degrees and batches", function()
    for _, pp in ipairs { 1, 4 } do
      local p = clean { seq = 4096, tp = 2, pp = pp, dp = 4, cp = 2, micro_batch = 2, micro_batches = 8, zero = 3,
        sequence_parallel = true, recompute = "selective" }
      local values = {}
      for line in export.text("torchtitan", model, p):gmatch "[^\n]+" do
        local name, value = line:match "^([%w_]+) = (.*)$"
        if name then values[name] = tonumber(value) or value end
      end
      assert.equal(pp * 2 * 4 * 2, values.data_parallel_replicate_degree * values.data_parallel_shard_degree
        * values.tensor_parallel_degree * values.pipeline_parallel_degree * values.context_parallel_degree)
      assert.equal(2 * 8 * 4, values.global_batch_size)
      -- A replica's sequences of a step: the local batch, as often as gradients are accumulated.
      assert.equal(0, values.global_batch_size % (values.local_batch_size * 4))
      assert.equal(pp > 1 and 16 or 2, values.local_batch_size)
      assert.same({ '"selective"', '"always"' }, { values.mode, values.fsdp_reshard_after_forward })
    end
  end)

  it("as DeepSpeed's JSON multiplies to the global batch", function()
    local p = clean { seq = 4096, dp = 16, micro_batch = 2, micro_batches = 4, zero = 2, overlap_gradients = true }
    local config = json.decode((export.text("deepspeed", model, p)))
    assert.equal(config.train_batch_size,
      config.train_micro_batch_size_per_gpu * config.gradient_accumulation_steps * 16)
    assert.same({ 2, true }, { config.zero_optimization.stage, config.zero_optimization.overlap_comm })
    assert.same({ true, false }, { config.bf16.enabled, config.fp16.enabled })
    local text, staged = export.text("deepspeed", model, clean { seq = 4096, pp = 4, micro_batches = 4, zero = 1,
      dtype = "fp16", gradient_dtype = "fp16", gradient_all_reduce = true, overlap_gradients = true })
    assert.is_false(json.decode(text).zero_optimization.overlap_comm)
    assert.equal("overlap_gradients: DeepSpeed's pipelines reduce gradients after the last backward pass", staged[1])
    local _, left_out = export.text("deepspeed", model, clean { seq = 4096, tp = 8, micro_batches = 1,
      dtype = "fp32", optimizer_bytes = 8 })
    assert.same({ "seq = 4096, tp = 8: set by the training script, not by DeepSpeed's configuration" }, left_out)
  end)

  it("of an unknown format is refused", function()
    assert.equal("unknown format 'megatorn'; did you mean 'megatron'?; known are deepspeed, megatron, torchtitan",
      raised(export.text, "megatorn", model, {}))
  end)
end)

describe("flags that ett claims to read", function()
  it("are read", function()
    local flags, sources = require "ett.import.megatron.flags", {}
    for _, name in ipairs { "init", "plan_of", "nemo" } do
      local path = package.searchpath("ett.import.megatron." .. name, package.path)
      sources[#sources + 1] = assert(require("ett.io").read(path))
    end
    local text = table.concat(sources)
    for _, kind in ipairs { "values", "switches" } do
      for name in pairs(flags[kind]) do
        assert.is_truthy(text:find('"' .. name .. '"', 1, true), name)
      end
    end
  end)

  it("are named if they are modelled as something else", function()
    local function notes(more) return table.concat(read(small .. "--bf16 " .. more, { dp = 1 }).model.notes, "; ") end
    assert.matches("--attention-dropout 0.1 is modelled as 0, the value of --hidden-dropout",
      notes "--hidden-dropout 0", 1, true)
    assert.matches("--attention-dropout 0 is modelled as 0.1, the value of --hidden-dropout",
      notes "--attention-dropout 0.0", 1, true)
    local without = notes "--attention-dropout 0.0 --hidden-dropout 0.0 --overlap-p2p-communication"
    assert.is_nil(without:find("dropout", 1, true))
    assert.matches("1 flag has no effect on the step", without, 1, true)
    assert.matches("--squared-relu is modelled as gelu, which moves the same bytes", notes "--squared-relu", 1, true)
    assert.matches("--is-hybrid-model: needs --hybrid-override-pattern, which names each layer's kind",
      message(small .. "--bf16 --is-hybrid-model", { dp = 1 }), 1, true)
  end)
end)

describe("Megatron-LM's defaults", function()
  local mixture = small .. "--num-experts 4 --expert-model-parallel-size 2 --nproc-per-node 4 --bf16 "
  local function plan_of(flags) return read(flags).plan end

  it("shard nothing under FSDP without a strategy, and read the strategy under FSDP alone", function()
    local few = small .. "--nproc-per-node 4 --use-distributed-optimizer "
    assert.equal(1, plan_of(few .. "--data-parallel-sharding-strategy optim_grads_params").zero)
    assert.equal(3, plan_of(few .. "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params").zero)
    local run = read(few .. "--use-megatron-fsdp")
    assert.equal(1, run.plan.zero)
    assert.same({ "--use-megatron-fsdp without --data-parallel-sharding-strategy shards no weights: no_shard" },
      run.model.notes)
  end)

  it("use DeepEP only with the flex dispatcher, and say that allgather counts as alltoall", function()
    local default = "--moe-token-dispatcher-type allgather, the default, is modelled as alltoall"
    for flags, wanted in pairs {
      [""] = { false, default }, ["--moe-flex-dispatcher-backend deepep"] = { false, default },
      ["--moe-token-dispatcher-type alltoall --moe-flex-dispatcher-backend deepep"] = { false },
      ["--moe-token-dispatcher-type flex"] = { true }, ["--moe-enable-deepep"] = { true },
      ["--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep"] = { true } } do
      local run = read(mixture .. flags)
      assert.equal(wanted[1], run.plan.deduplicate_tokens, flags)
      assert.same({ wanted[2] }, run.model.notes or {}, flags)
      local own = wanted[1] and (flags:find "hybridep" and "hybridep" or "moe")
      assert.equal(own and "megatron_" .. own or "megatron", run.plan.stack:match "^[^:]*", flags)
    end
  end)

  it("count embedding and loss among the layers of virtual stages", function()
    local plan = plan_of("--num-layers 14 --hidden-size 256 --num-attention-heads 4 --vocab-size 1000 --seq-length 128 "
      .. "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2 --nproc-per-node 4 "
      .. "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split --global-batch-size 32")
    assert.equal(4, plan.vp)
    assert.same({ 1, 2, 2, 2, 2, 2, 2, 1 }, plan.split)
  end)

  it("have a window in the layers of --window-attn-skip-freq", function()
    local function windows(more, ending, given)
      local text = ending and more or small .. "--nproc-per-node 1 --window-size 64,0 " .. more
      local h, list = read(text, { dp = 1 }, given, ending).model.hyper, {}
      for i = 1, h.layers do
        local kind = blocks.type_of(h, i) or "sliding_attention"
        list[i] = ({ sliding_attention = "W", full_attention = "f" })[kind] or "-"
      end
      return table.concat(list)
    end
    assert.equal("WWWW", windows "")
    assert.equal("WfWf", windows "--window-attn-skip-freq 2")
    assert.equal("WWWf", windows "--window-attn-skip-freq '([1]*3+[0])*1'")
    assert.equal("WfWf", windows "--window-attn-skip-freq '([1] + [0]) * 2'")
    assert.equal("fWWf", windows "--window-attn-skip-freq [0,1,1,0]")
    assert.equal("WWfW", windows("--window-attn-skip-freq [0,1,1,0]", nil, { window_every = 3 }))
    assert.equal("-f-W", windows("--experimental-attention-variant gated_delta_net --linear-attention-freq 2 "
      .. "--window-attn-skip-freq [1,0,0,1]"))
    assert.equal("-f-W", windows "--hybrid-layer-pattern M*M* --window-attn-skip-freq [1,0,0,1]")
    assert.equal("-W-W", windows "--hybrid-layer-pattern M*M*")
    assert.equal("fWWf", windows("model:\n  num_layers: 4\n  hidden_size: 256\n  num_attention_heads: 4\n"
      .. "  encoder_seq_length: 128\n  vocab_size: 1000\n  window_size: [64, 0]\n"
      .. "  window_attn_skip_freq: [0, 1, 1, 0]\n", ".yaml"))
    assert.matches("--window-attn-skip-freq: must give 0 or 1 for each of 4 layers, got '[1,0]'",
      message(small .. "--window-size 64,0 --window-attn-skip-freq [1,0]", { dp = 1 }), 1, true)
    local model = model_module.new("llama", { layers = 4, hidden = 256, heads = 4, vocab = 1000, window = 64,
      layer_types = { "sliding_attention", "full_attention", "full_attention", "sliding_attention" } })
    local plan = estimate.new { model = model, cluster = "dgx_h100", plan = { seq = 128, micro_batches = 1 } }.plan
    local text, left_out = export.text("megatron", model, plan)
    assert.matches("--window-attn-skip-freq '[1,0,0,1]'", text, 1, true)
    for _, sentence in ipairs(left_out) do assert.is_nil(sentence:find("layer_types", 1, true), sentence) end
    assert.same(model.hyper.layer_types, read(text, { dp = 1 }).model.hyper.layer_types)
  end)

  it("have no window if its left side is -1", function()
    for _, text in ipairs { "-1,0", "'(-1, -1)'" } do
      assert.is_nil(read(small .. "--nproc-per-node 1 --window-size " .. text).model.hyper.window)
    end
    -- 64 tokens before the query, and the query
    assert.equal(65, read(small .. "--nproc-per-node 1 --window-size 64,0").model.hyper.window)
    assert.matches("--window-size: must be two integers, got 'x'", message(small .. "--window-size x", { dp = 1 }),
      1, true)
  end)

  it("recompute the first layers of each slice, or several layers from one stored input", function()
    local function of(flags, given)
      local run = read(small .. "--bf16 --recompute-granularity full " .. flags,
        random_plans.with({ dp = 1 }, given or {}))
      local p = run.plan
      return { p.recompute, p.recompute_layers or "-", p.recompute_method or "-", run.model.notes[1] }
    end
    local block, uniform = "--recompute-method block --recompute-num-layers ", "--recompute-method uniform "
    assert.same({ "none", "-", "-" }, of(block .. 0))
    assert.same({ "full", 3, "block" }, of(block .. 3))
    assert.same({ "full", "-", "-" }, of(uniform .. "--recompute-num-layers 1"))
    assert.same({ "full", "-", "-" }, of(uniform))
    assert.same({ "full", 2, "uniform" }, of(uniform .. "--recompute-num-layers 2"))
    for _, count in ipairs { "0", "-1" } do
      assert.equal("FILE: --recompute-num-layers: must be at least 1 with --recompute-method uniform, got " .. count,
        message(small .. "--recompute-granularity full " .. uniform .. "--recompute-num-layers " .. count, { dp = 1 }))
    end
    assert.same({ "full", "-", "-" }, of(block .. 3, { recompute = "full" })) -- the words', not the file's
    assert.same({ "full", 2, "block" }, of(block .. 3, { recompute_layers = 2 }))
    assert.matches("--recompute-method: unknown value 'blok'; did you mean 'block'?",
      message(small .. "--recompute-granularity full --recompute-method blok --recompute-num-layers 1", { dp = 1 }), 1,
      true)
  end)

  it("of recomputed layers are exported, and read back", function()
    for _, method in ipairs { "block", "uniform" } do
      local text, left_out = export_of { recompute = "full", recompute_layers = 3, recompute_method = method,
        stack = "megatron" }
      assert.same({}, left_out)
      local p = read(text, { dp = 1 }).plan
      assert.same({ "full", 3, method }, { p.recompute, p.recompute_layers, p.recompute_method })
    end
    assert.same({ "recompute_method = 'every': exported as full recomputation" }, select(2,
      export_of { recompute = "full", recompute_layers = 3, recompute_method = "every", stack = "megatron" }))
    local function of_ids(ids, given)
      local text, left_out = export_of(random_plans.with({ recompute = "full", recompute_layer_ids = ids,
        stack = "megatron" }, given or {}))
      return { read(text, { dp = 1 }).plan.recompute_layers or "-", table.unpack(left_out) }
    end
    local others = "recompute_layer_ids: not the first layers of each slice, exported as full recomputation"
    assert.same({ 2 }, of_ids { 1, 0 })
    assert.same({ "-", others }, of_ids { 0, 2 })
    assert.same({ 1 }, of_ids({ 16, 0 }, { pp = 2 }))
    assert.same({ "-", others }, of_ids({ 0 }, { pp = 2 }))
    local text, left_out = export_of { pp = 2, recompute = "policy", stack = "megatron" }
    assert.same({}, left_out)
    local p = read(text, { dp = 1 }).plan -- half of 16 layers
    assert.same({ "full", 8, "block" }, { p.recompute, p.recompute_layers, p.recompute_method })
    assert.same({ "recompute = 'policy': exported as full recomputation" },
      select(2, export_of { pp = 2, recompute = "policy", stack = "megatron", split = { 15, 17 } }))
    assert.same({ "recompute = 'policy': exported as full recomputation" },
      select(2, export_of { recompute = "policy", stack = "torchtitan" })) -- half of the products, not of the layers
  end)

  it("of features that are switched off are not named as not modelled", function()
    local notes = read(small .. "--softmax-type vanilla --wgrad-deferral-limit 0 "
      .. "--outer-dp-sharding-strategy no_shard", { dp = 1 }).model.notes
    assert.equal("2 flags have no effect on the step", notes[1])
    notes = read(small .. "--wgrad-deferral-limit 2", { dp = 1 }).model.notes
    assert.equal("flags that change the step and are not modelled: --wgrad-deferral-limit", notes[1])
  end)

  it("that Megatron-LM refuses are noted: gathers of weights beside reductions that do not overlap", function()
    local few = small .. "--use-distributed-optimizer --overlap-param-gather "
    assert.same({ "Megatron-LM refuses --overlap-param-gather without --overlap-grad-reduce" },
      read(few, { dp = 2 }).model.notes)
    assert.same({}, read(few .. "--overlap-grad-reduce", { dp = 2 }).model.notes)
    assert.same({}, read(few .. "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params", { dp = 2 })
      .model.notes)
  end)

  it("leave the states of the optimizer to the host", function()
    local function share(text) return read(small .. text, { dp = 1 }).plan.offload_optimizer end
    assert.equal(1, share "--optimizer-cpu-offload")
    assert.equal(0.25, share "--optimizer-cpu-offload --optimizer-offload-fraction 0.25")
    assert.is_nil(share "--optimizer-offload-fraction 0.25")
  end)

  it("have no experts if their number is 0, and BigScience's norm behind the embedding", function()
    local run = read(small .. "--num-experts 0", { dp = 1 })
    assert.same({ "gpt" }, { run.architecture, run.model.hyper.experts })
    local with, without = read(small .. "--embed-layernorm", { dp = 1 }).model, read(small, { dp = 1 }).model
    assert.same({}, with.notes)
    assert.equal(2 * 256, architecture.parameters(with) - architecture.parameters(without))
  end)

  it("exchange keys and values as the first layer does, and hierarchically in a ring of neighbours", function()
    for types, wanted in pairs { p2p = { "ring" }, ["a2a a2a"] = { "ulysses" },
      ["a2a p2p a2a"] = { "ulysses", "--cp-comm-type a2a p2p a2a is modelled as a2a" } } do
      local run = read(small .. "--context-parallel-size 2 --cp-comm-type " .. types, { dp = 1 })
      assert.same(wanted, { run.plan.cp_method, (run.model.notes or {})[1] })
    end
    local sizes = " --hierarchical-context-parallel-sizes "
    local function hierarchical(rest)
      return read(small .. "--context-parallel-size 8 --cp-comm-type a2a+p2p" .. rest, { dp = 1 })
    end
    local plan = hierarchical(sizes .. "2 4").plan
    assert.same({ "ring", 2 }, { plan.cp_method, plan.cp_ulysses })
    for _, wrong in ipairs { "", sizes .. "2", sizes .. "2 2", sizes .. "2 2 2" } do
      assert.error_matches(function() hierarchical(wrong) end, "two degrees with the product 8")
    end
    local text = export_of { cp = 8, cp_ulysses = 2, stack = "megatron" }
    assert.matches("--cp-comm-type a2a+p2p", text, 1, true)
    assert.matches("--hierarchical-context-parallel-sizes 2 4", text, 1, true)
    assert.matches("--cp-comm-type a2a\n", export_of { cp = 8, cp_ulysses = 8, stack = "megatron" }, 1, true)
    for stack, wanted in pairs { megatron = "p2p", plain = "all_gather", ["megatron:cp_method=ulysses"] = "a2a" } do
      assert.equal(wanted, export_of({ cp = 2, stack = stack }):match "%-%-cp%-comm%-type (%S+)")
    end
  end)

  it("use a padded vocabulary as it is", function()
    local hyper = read(small:gsub("vocab%-size 1000", "padded-vocab-size 50304")
      .. "--tensor-model-parallel-size 8 --nproc-per-node 8").model.hyper
    assert.equal(50304, architecture.configuration(hyper, { tp = 8, micro_batch = 1, seq = 1 }).vocab)
  end)

  it("are replaced in an export: the dispatcher, and a window that a shell reads as one word", function()
    local model = model_module.new("mixtral", { layers = 2, hidden = 256, heads = 4, kv_heads = 4, ffn = 512,
      vocab = 1000, experts = 4, top_k = 2, window = 64 })
    for stack, wanted in pairs { megatron = "--moe-token-dispatcher-type alltoall",
      megatron_moe = "--moe-token-dispatcher-type flex\n--moe-enable-deepep",
      megatron_hybridep = "--moe-token-dispatcher-type flex\n--moe-flex-dispatcher-backend hybridep",
      megatron_bridge = "--moe-token-dispatcher-type flex\n--moe-flex-dispatcher-backend hybridep" } do
      local plan = { seq = 128, dp = 4, ep = 2, micro_batches = 2, stack = stack }
      local e = estimate.new { model = model, plan = plan, cluster = "dgx_h100" }
      local text = export.text("megatron", model, e.plan)
      assert.matches(wanted, text, 1, true)
      assert.matches('--window-size "(63,0)"', text, 1, true)
      assert.is_nil(text:find("no-bias-swiglu-fusion", 1, true))
      assert.equal(64, read(text).model.hyper.window)
      assert.equal(stack ~= "megatron", plan_of(text).deduplicate_tokens)
      plan.stack = stack .. ":gated_mlp=3.1"
      local changed = estimate.new { model = model, plan = plan, cluster = "dgx_h100" }
      local apart = export.text("megatron", model, changed.plan)
      assert.matches("--no-bias-swiglu-fusion\n", apart, 1, true)
      assert.equal(plan.stack, plan_of(apart).stack)
    end
  end)
end)

describe("a YAML file of Megatron-Bridge", function()
  local text = [[
model:
  num_layers: 16
  hidden_size: 256
  num_attention_heads: 4
  gated_linear_unit: true
  seq_length: 128
  vocab_size: 1000
  pipeline_model_parallel_size: 4
  num_layers_in_first_pipeline_stage: 3
  num_layers_in_last_pipeline_stage: 5
  attention_backend: { _args_: [3], _call_: true, _target_: megatron.core.transformer.enums.AttnBackend }
  init_method: { _args_: [], _partial_: true, _target_: torch.nn.init.normal_, mean: 0.0, std: 0.02 }
  wgrad_deferral_limit: 0
ddp: { bucket_size: 80000000, overlap_grad_reduce: true, use_distributed_optimizer: true }
optimizer:
  use_precision_aware_optimizer: true
  exp_avg_dtype: { _call_: false, _target_: torch.bfloat16 }
  exp_avg_sq_dtype: { _call_: false, _target_: torch.bfloat16 }
  main_params_dtype: { _call_: false, _target_: torch.float32 }
]]

  it("states buckets, uneven stages and types of states in its own terms", function()
    for _, key in ipairs { "fp8_param", "fp8_param_gather" } do
      local run = read(text .. "fp8: true\n" .. key .. ": true\n", { dp = 8 }, nil, ".yaml")
      assert.matches(":quantised_weights=only", run.plan.stack, 1, true)
    end
    local single = "fp8: true\nfp8_params: true\ndisable_parameter_transpose_cache: true\n"
    assert.matches(":quantised_weights=single", read(text .. single, { dp = 8 }, nil, ".yaml").plan.stack, 1, true)
    assert.matches("disable_parameter_transpose_cache without fp8_params is not modelled",
      table.concat(read(text .. single:gsub("fp8_params: true\n", ""), { dp = 8 }, nil, ".yaml").model.notes), 1, true)
    for value, wanted in pairs { ["false"] = ":gated_mlp=3.1", ["true"] = "" } do
      local own = text:gsub("  wgrad", ("  bias_activation_fusion: %s\n  wgrad"):format(value))
      assert.equal("megatron" .. wanted, read(own .. "bf16: true\n", { dp = 8 }, nil, ".yaml").plan.stack)
    end
    local run = read(text .. "mixed_precision: bf16_mixed\n", { dp = 8 }, nil, ".yaml")
    local p, h = run.plan, run.model.hyper
    assert.same({ 3, 4, 4, 5 }, p.split)
    assert.same({ 320000000, 8, "bf16", 1024, "fused_softmax" }, { p.bucket_bytes, p.optimizer_bytes, p.dtype, h.ffn,
      h.attention })
    assert.equal("1 flag has no effect on the step", run.model.notes[1])
  end)

  it("may name a recipe of mixed precision", function()
    for recipe, wanted in pairs { bf16_with_fp8_delayed_scaling_mixed = "fp8", fp16_mixed = "fp16",
      nemotron_h_bf16_with_fp8_current_scaling_mixed = "fp8", bf16_with_fp8_subchannel_scaling_mixed = "fp8_block",
      nanov2_bf16_with_fp8_current_scaling_mixed = "fp8_block", fp16_with_mxfp8_mixed = "mxfp8",
      bf16_with_nvfp4_mixed = "nvfp4", bf16_with_fp8_mixed = "fp8" } do
      assert.equal(wanted, read(text .. "mixed_precision: " .. recipe .. "\n", { dp = 8 }, nil, ".yaml").plan.dtype)
    end
  end)

  it("trains the adapters of its section peft, with the defaults of its program", function()
    local function adapters(section, plan, own)
      local run = read((own or text) .. section, plan or { dp = 8 }, nil, ".yaml")
      return { run.plan.lora_rank or 0, table.concat(run.plan.lora_targets or { "usual" }, ","),
        run.plan.lora_dropout }, run.model.notes
    end
    assert.same({ 32, "usual", 0.1 }, adapters "peft: { _target_: megatron.bridge.peft.lora.LoRA, dropout: 0.1 }\n")
    local bridge = "peft: { _target_: megatron.bridge.peft.lora.%s, dim: 8, alpha: 16, target_modules: %s }\n"
    assert.same({ 32, "usual" }, adapters "peft: lora\n")
    assert.same({ 32, "usual" }, adapters "peft: { _target_: megatron.bridge.peft.lora.LoRA }\n")
    assert.same({ 8, "linear_proj,linear_down" }, adapters(bridge:format("LoRA", "[linear_proj, '*.linear_fc2']")))
    assert.same({ 4, "linear_up" }, adapters(bridge:format("LoRA", "[linear_fc1]"), { dp = 8, lora_rank = 4 }))
    for _, off in ipairs { "peft: null\n", "peft: {}\n", "peft: none\n",
      "peft: { peft_scheme: null, lora_tuning: { adapter_dim: 8 } }\n",
      "peft: { enabled: false, peft_scheme: lora }\n", "" } do
      assert.same({ 0, "usual" }, adapters(off))
    end
    local one = "trainer: { precision: bf16 }\nmodel:\n"
      .. "  peft: { peft_scheme: lora, lora_tuning: { adapter_dim: 16%s } }\n"
    local nemo = text:gsub("^model:\n", "")
    assert.same({ 16, "linear_qkv" }, adapters(nemo, nil, one:format ""))
    assert.same({ 16, "linear_qkv,linear_proj,linear_down" },
      adapters(nemo, nil, one:format ", target_modules: [attention, mlp_fc2]"))
    for section, flag in pairs { [bridge:format("DoRA", "[linear_qkv]")] = "peft", ["peft: { dim: 8 }\n"] = "peft",
      ["peft: { peft_scheme: ptuning }\n"] = "peft",
      [bridge:format("LoRA", "[linear_qkv], exclude_modules: [[x]]")] = "peft-exclude-modules" } do
      local _, notes = adapters(section)
      assert.matches("flags that change the step and are not modelled: --" .. flag .. "\n", table.concat(notes, "\n"),
        1, true)
    end
    assert.equal("FILE: peft: target_modules: '*.layers.0.*.linear_qkv' is not modelled; give "
      .. "lora_targets=NAME,NAME",
      message(text .. bridge:format("LoRA", "['*.layers.0.*.linear_qkv']"), { dp = 8 }, nil, ".yaml"))
    assert.equal("FILE: --peft-dropout: must be a number, got 'much'",
      message(one:format ", adapter_dropout: much" .. nemo, { dp = 8 }, nil, ".yaml"))
    local function step(section)
      local run = read(text .. section, { dp = 8, global_batch = 32, seq = 4096 }, { hidden = 4096, heads = 32,
        ffn = 16384 }, ".yaml")
      return estimate.new { model = run.model, plan = run.plan, cluster = "dgx_h100" }.step_seconds
    end
    assert.is_true(step "peft: lora\n" < step "")
  end)

  it("keeps weights in fp8, and layers in 16 bits, as the recipe of its name does", function()
    local other = "ddp: {grad_reduce_in_fp32: false, fp8_param_gather: true}\n"
    for recipe, wanted in pairs { bf16_mixed = {}, ["bf16-with-fp8-delayed-scaling-mixed"] = { "only" },
      bf16_with_fp8_current_scaling_mixed = { "only", true }, bf16_with_fp8_subchannel_scaling_mixed = {},
      bf16_with_mxfp8_mixed = { "only" } } do
      local file = text:gsub("ddp:[^\n]*\n", other) .. "mixed_precision: " .. recipe .. "\n"
      local run = read(file, { dp = 8 }, nil, ".yaml")
      assert.equal(wanted[1], run.plan.stack:match "quantised_weights=(%w+)", recipe)
      assert.equal(wanted[2], table.concat(run.model.notes):find("--first-last-layers-bf16", 1, true) and true, recipe)
      assert.equal("fp32", run.plan.gradient_dtype) -- the recipe's value replaces that of ddp
    end
  end)

  it("has fields in the section of mixed precision that replace those of other sections", function()
    local own = "mixed_precision: {bf16: true, fp8: %s, fp8_recipe: blockwise}\n"
    local model = text .. "fp8_recipe: delayed\nfp8: %s\n"
    for fp8, wanted in pairs { hybrid = "fp8_block", null = "bf16" } do
      local other = fp8 == "null" and "hybrid" or "null"
      local run = read(own:format(fp8) .. model:format(other), { dp = 8 }, nil, ".yaml")
      assert.equal(wanted, run.plan.dtype)
    end
    local named = "mixed_precision: bf16_with_fp8_subchannel_scaling_mixed\n" .. model:format "null"
    assert.equal("fp8_block", read(named, { dp = 8 }, nil, ".yaml").plan.dtype)
    assert.equal("fp8", read(model:format "hybrid", { dp = 8 }, nil, ".yaml").plan.dtype)
  end)

  it("widens a gated MLP to four times the hidden width, unlike Megatron-LM's command line", function()
    local flags = "ARGS: { --num-layers: 4, --hidden-size: 256, --num-attention-heads: 4, --swiglu: true, "
      .. "--vocab-size: 1000, --seq-length: 128 }\n"
    local whole = read(flags, { dp = 1 }, nil, ".yaml")
    assert.same({ 640, "megatron:cross_entropy=megatron" }, { whole.model.hyper.ffn, whole.plan.stack })
    for name, gated in pairs { reglu = true, ["fast-swiglu"] = true, gelu = false } do
      local file = text:gsub("gated_linear_unit: true", "activation: " .. name)
      local own = read(file, { dp = 8 }, nil, ".yaml").model.hyper
      assert.same({ 1024, gated }, { own.ffn, own.gated_mlp })
    end
  end)
end)

describe("lists of a NeMo file", function()
  it("are several words, or one in brackets where the flag takes a list", function()
    local run = read([[
model:
  num_layers: 4
  hidden_size: 256
  num_attention_heads: 4
  ffn_hidden_size: 512
  encoder_seq_length: 128
  vocab_size: 1000
  num_moe_experts: 4
  moe_layer_freq: [0, 1, 1, 1]
  activations_checkpoint_granularity: selective
  recompute_modules: [core_attn, mlp]
trainer:
  devices: 4
  num_nodes: 1
]], nil, nil, ".yaml")
    assert.same({ "core_attn", "mlp" }, run.plan.recompute_modules)
    run = read("ARGS:\n  --num-layers: 4\n  --hidden-size: 256\n  --num-attention-heads: 4\n  --vocab-size: 1000\n"
      .. "  --seq-length: 128\n  --recompute-granularity: selective\n  --recompute-modules: core_attn mlp\n"
      .. "  --num-experts: 4\n  --moe-layer-freq: ([0] + [1]*3)\n", { dp = 1 }, nil, ".yaml")
    assert.same({ "core_attn", "mlp" }, run.plan.recompute_modules)
    assert.equal(1, run.model.hyper.first_dense_layers)
    assert.equal(1, run.model.hyper.first_dense_layers)
  end)
end)
