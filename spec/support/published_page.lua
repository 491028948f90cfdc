--- ACCURACY.md: the figures of `ett bench published` as a page.
local page = {}

local intro = [[
# Accuracy

Measured training steps that others published, against ett's estimates of them. Written by
`ett bench published --page ACCURACY.md` on %s at commit %s.
Edit spec/support/published_page.lua, not this page.

The rows are those of grade A and A- that are whole training steps, each measurement once. A few in-step factors are
fitted on them (spec/support/published_factors.lua). **Each row is estimated with factors that were fitted without its
source.** `ett bench published --rows` prints every row.

| column | meaning |
|---|---|
| answered | estimated rows, of all rows |
| error | mean of abs(estimated / measured - 1) |
| median, bias | median of the same; mean of the signed error |
| inside | share of rows inside their 90 %% interval |
| half-width | median half-width of the interval |

]]

local titles = { { "all", "All" }, { "architecture", "By architecture" }, { "hardware", "By hardware" },
  { "precision", "By precision" }, { "nodes", "By nodes" }, { "recompute", "By what the row states of recomputation" },
  { "packed", "Packed sequences" }, { "use", "Fine-tuning" }, { "grade B", "Grade B" }, { "source", "By source" } }

local judgements = [[
## Judgements made with errors in view

Mechanisms, priors and answers to open fields were chosen after errors of all rows had been seen. Most are from
memory of the software and were not checked against its code. The errors above are therefore optimistic:

- MaxText rows without a stated policy recompute in full: its default `remat_policy`. Rows of `minimal` and
  `save_dot_with_context_except_mlp` repeat the operators that these policies do not store, by MaxText's code. Rows of
  `save_qkv_proj` are counted as full. As full, an H200 row was 11 % too slow.
- Selective checkpointing of fms-fsdp, and of torchtitan by layer, repeats every second layer; that of torchtitan by
  operator what its code does not store.
- ZB-1p and ZB-2p rows are estimated under zb_1p and zb_2p, ordered by the estimated times of units. All rows of that
  paper have what its software's first script and Megatron-LM's defaults say: fp16, fused softmax, dropout, tied
  embeddings. The rows' vocabulary of 51,200 contradicts the parameters that they state, too. These leave 25,500 to
  33,500; 32,000 is taken. Their printed memory agrees: it is 2.5 % off, at most 6.4, and 26 to 42 % above the
  estimates of the rows as they are. With 51,200 the mean errors are 6.3 % under zb_1p and 11.3 % under zb_2p, not 3.2
  and 2.5. The paper's profile (arXiv 2401.10241, table 6) excludes 51,200 for 1.5B: two layers, that head and its
  loss would take a tenth more than the step. The authors' table of these rows and of 28.3B was seen during this
  look-up.
- Unfused attention has the biases and copies of Megatron-LM's own layers around it (`head_copies`), from its code.
  The zero-bubble rows led to it. Mean errors before and after: vTrain on several nodes 7.1 and 6.8 %, SC21 1.4 and
  0.8. Korthikanti 0.7 and 1.2, zero bubble 4.1 and 3.4, bigscience 15.0 and 14.5.
- Unfused cross entropy moves the bytes that its kernels read and write; the factor of 3 before was too high.
- The first and last slice hold a layer less where a row says that embedding and loss count as layers.
- Steps of sharded data parallelism have a slowdown by generation.
- With `CUDA_LAUNCH_BLOCKING=1` the host waits for each kernel.
- NeMo's rows that do not state it overlap tensor-parallel communication (not nvfp4). They accumulate gradients inside
  the weight products. So do all rows of NeMo that state it.
- Megatron-DeepSpeed's pipelines send one after the other, as DeepSpeed's do.
- LoRA rows without a rank have rank 16, those without targets their software's default, and they recompute in full
  where they do not fit otherwise.
- CUDA graphs of parts of a layer leave the launches of the parts that their names leave out, and a quarter of those
  of routing. Mixtures of Megatron-Bridge on NVL72 that do not state graphs have these, as most that state them.
- A layer of a pair of micro-batches (all-to-alls beside computing) takes the host 1.4 times as long before the fit.
  The fields that decide it were found by the errors of Qwen3 at one sequence a micro-batch.
- InternEvo's rows have a stack of their own, from its code and its installation page. It runs FlashAttention 1 and
  norms of inputs cast to fp32, which the backward pass repeats. Gradients are summed in bf16 over all replicas. Each
  rank owns whole tensors and broadcasts them after the update, over 8 or over all replicas. This was looked for with
  errors in view. States shared by all of 512 or 1024 devices were 19 to 39 % too fast, now 7 to 21 %. Those shared by
  8 were 1 % too fast, now 5 %. Before, a slow gather that they do not run made up for computing that was too fast.
  Steps of one and two micro-batches on 512 and 1024 devices became worse (16 to 24 % too fast): reductions take longer
  there than the cards' rate says. This is not explained.
- The rates of products and attention follow a device's power with a fitted exponent, pulled to 0.5.
- Communication takes a third of a device from the computing beside it: fitted, pulled to DeepSeek's 0.15. The
  all-to-alls of DeepEP and HybridEP keep 0.15; chosen with the errors of mixtures in view. The gradients and parameters
  of these stacks also had 0.15 at first, although NCCL moves them. They have the fitted share since the errors of
  gpt-oss were looked at. Its rows went from 14.0 to 13.6 %, all mixtures from 9.8 to 9.7.
- A device without a table takes those of its own chip where there are some: those whose multiprocessors have the
  same rates (GB200 takes B200's). Devices left out of the tables show it; it was found by the errors of GB200's rows.
- mxfp8 takes the tables of fp8_block: both quantise a block in one pass. Its factor is pulled to 1.25: bf16's without
  the larger slowdown of bf16 (1.41 / 1.15 * 1.03). Chosen with errors of its rows in view.
- Heads run in 16 bits where layers are quantised, and are gathered so. Megatron-LM's output layer is no layer of
  Transformer Engine (gpt_model.py). torchtitan, MaxText and llm-foundry are taken to do the same, from memory.
- Attention of a device without a table of its passes takes its level from kernels of its own chip (GB200 from B200).
  Before, GB200 answered as fast as GB300. TPUs take H200's formulas as they are.
- Sends overlap where rows say so; before, that was not read. NeMo's virtual stages overlap where a row is silent.
- Factors were fitted again after these three. Mean errors fell: GB200 from 9.7 to 7.7 %, mixtures from 11.3 to 10.2,
  nvfp4 from 8.3 to 6.2, B300 from 14.2 to 13.7. Three rose: H200 from 4.9 to 7.4 %, fp8 from 7.5 to 7.9, LoRA from
  6.8 to 7.6.
- NeMo and Megatron-Bridge rows that do not state it overlap gradients and parameters, and NeMo's reduce in bf16. Its
  performance scripts do the same, and all but two rows that state it.
- NVIDIA's fine-tuning packs SQuAD, so attention stays inside documents. They count as 512 tokens, longer than SQuAD's
  200, since a kernel's grid is that of a pack's longest. LoRA rows are then 6 % too fast.
- Ranks that split a tensor gather operands of products in the products' data type, as Transformer Engine does.
- nvfp4 training reads each input and each gradient twice more, for scales and Hadamard transforms (arXiv 2509.25149).
- One local expert has the factor of several experts; without it Grok's rows were 20 % too fast.
- MaxText's experts run in Megablox with its default tile of 512 rows, which two experts can share. Its tensor
  parallelism splits experts as it splits dense products.
- Rows of Megatron-LM since 2022 that do not state gradient accumulation have its default: inside the weight products.
  The code of the zero-bubble rows does the same. With it their steps would be 6.3 % too fast instead of 1.8 %, so they
  were not changed: another effect is missing there. The paper has a profile of a middle stage. With fused
  accumulation, B and W together take 3 to 5 % less there than estimated. F takes 9 to 16 % more. Steps take 8 to 12 %
  more than the sum of their passes.
- XLA's recomputation omits a layer's last product, because XLA removes code with unused results.
- The prior of FlashAttention 1 on H100 is 3.5 times the newest kernel: versions 2 and 3 are each about twice as fast
  as the one before (Dao 2023, Shah et al. 2024). It was 2.7 before the errors of llm-foundry were seen.
- FlashAttention 2 on H100 has its measured rates (in_step.lua) since the errors of torchtitan's long contexts were
  seen. The fit had made its backward pass a fifth faster than measured. Rows of 8192 tokens became worse.
- Context parallelism moves the bytes of merging partial attention, counted from the code of Transformer Engine and of
  PyTorch (in_step.merge). It was looked up with the errors of long contexts in view.
- Products of an odd width: sources differ, and the factor is a mean of three. One of them is the error of vTrain's
  steps inside a node, whose vocabulary has 50,257 tokens (lua/ett/profile/device_times.lua).
- Launches of Megatron's software of 2021 and 2022 keep their textbook value, 60 us. The fit's 79 us came from steps
  with `CUDA_LAUNCH_BLOCKING=1` alone, and made the steps of vTrain inside a node 20 % and more too slow.
- Routing launches count as 8 operators before the fit: 25 made rows with few tokens twice too slow.
- bf16 products on Blackwell take 1.39 times their table's time after the fit. Sustained tables explain 1.15; the
  cause of the rest is not known.
- The host of GB200 and GB300 (Grace) takes longer to launch kernels than x86: fitted, pulled to 2.6. PyTorch's product
  alone takes Grace 2.5 to 2.75 times as long (NVIDIA/TransformerEngine#2053). It was looked for since mixtures on
  GB200 without a graph of the whole step were 11 to 15 % too fast. Those on B200 and B300 were not.
- In Megatron each expert runs as separate products on CUDA streams, and each costs host time (Transformer Engine's
  GroupedLinear). Steps that are one CUDA graph run one grouped kernel.
- Megatron adds the biases of experts in a separate kernel (experts.py, `_apply_bias`), except in steps that are one
  CUDA graph.
- PyTorch's full recomputation omits a dense layer's last product (`early_stop`). Whether the releases of the rows do
  is unknown.
- vTrain's steps inside a node use full recomputation, by their configurations; the rows do not state it.
- vTrain's rows run the fused softmax of their note and of that simulator's model; their field says "unfused". Rows of
  Megatron-DeepSpeed have Megatron-LM's dropout of 0.1, its default, which BLOOM's script does not change.
- vTrain's steps inside a node add up exactly from parts: the time of reducing gradients is the same for every
  micro-batch and tensor degree. They have the vocabulary of that simulator's model, 50,257 and not padded. Rows of
  products that do not begin on 16 bytes take up to twice as long, by what nanoGPT's author reports of that vocabulary.
- Products of heads took 1.15 times one product of all their rows, by assumption. The shared samples of A100, which are
  no steps, say 1.0, and lower clocks now slow only the share of them that is arithmetic. That made the steps of
  Megatron's unfused attention 2 % faster and worse. Samples of the fused masked softmax say 1.34 and 1.44 times its
  bytes' time, forward and backward. What else was missing was looked for in Megatron-LM's and DeepSpeed's code:
  gradients of biases, the sum of gradients behind a dropout, norm, clipping and unscaling of gradients, DeepSpeed's
  copies. Bytes are counted from the code, none are fitted. Small kernels that join an operator cost no host time.
- Dropout kernels are assumed to be memory-bound, because Philox needs few instructions per value. If random numbers
  limited them, rows of 2021 would fit better, those of Korthikanti et al. and of vTrain inside a node worse.
- In vTrain's rows, data-parallel groups with two or four devices of each node seem to take two to three times the
  time at the cards' rate. Groups with one device or all eight do not. Four cards serve eight devices there. A ring of
  two or four devices then enters a node by one card and leaves by another. NCCL before 2.20 sent such rings across
  the rails of a network. But such groups alone take 0.95 times (two devices) and 1.25 to 1.45 times (four) the time
  at the cards' rate (NVIDIA/nccl issues 569 and 1411). The rows of SC21 show no such effect, so it is not modelled.
  It would not correct the wrongly chosen plan: a row of 10.5 s would then be chosen instead of one of 9.6 s with half
  of its micro-batch. Three rows that take 1.4 to 1.9 times as long as similar rows are unexplained: others with the
  same messages, kernels and more memory are not slow.
- Stages that receive activations split over tensor ranks gather them, by the code of Megatron-LM and of DeepSpeed.
  This was found after Vista's errors (6.4 %, now 4.6).
- All-reduces of input gradients over tensor ranks overlap the weight-gradient products in Megatron-LM since 2022 and
  in Transformer Engine (Korthikanti et al., section 6.2). In rows of 2021 and of DeepSpeed they are exposed. This was
  found after the gathers had made the rows of that paper 3.0 % too slow (now 1.1 %). It applies to all rows: those of
  B200 without overlap became worse (7.6 and 7.9 %), GB200, GB300 and nvfp4 better.
- The slowdown of kernels that overlap gathers of sharded weights falls above 16384 tokens of a micro-batch.
- Gathers of sharded weights (ZeRO-3) overlap if a row does not state it. InternEvo overlaps
  gradients, as its configurations do. MoE steps that are one graph hide their all-to-alls.
- XLA was taken not to overlap on GPUs, until the errors of paxml's rows were looked at. The scripts of paxml and of
  MaxText turn its scheduler on (JAX-Toolbox, run_base_config_multinode.sh; gpu-recipes, values.yaml). Paxml recomputes
  by its configuration (google/paxml, scripts_gpu/configs.py). It stores the outputs of products and repeats the rest;
  in fp8 it repeats all. Its row without Transformer Engine stores the scores of attention. Google's MaxText rows went
  from 13.8 to 5.1 %, paxml's of grade A- from 11.7 to 15.8. Paxml's loop over layers has no double buffer: the first
  gather of each layer does not overlap. This is not modelled.
- NeMo's rows before 25.04 have the layers of that release's own configurations (NeMo-Framework-Launcher): biases,
  dropout, fused softmax and gradients in fp32 where these say so. Their loss is Megatron-LM's native fused one, since
  Transformer Engine has its own from 2.1 on; rows of the launcher of 2023 have the unfused one. The launcher's rows
  went from 26.7 to 10.0 %, the documentation's of 24.07 from 8.3 to 7.8.
- llm-foundry's rows on H100 that do not name the attention kernel are estimated with FlashAttention 1.
- NeMo Automodel's rows without an expert-parallel degree have that of its benchmark configurations: all ranks.
- Megatron-LM with Transformer Engine accumulates gradients inside the weight products, its default.
- Qwen3 has norms of queries and keys. gpt-oss clamps the inputs of its activation and scales its rotations (YaRN).
  Megatron runs both as kernels of their own (fused_bias_geglu.py, rope_utils.py). If a step is one graph,
  the clamps are not counted as a kernel. The loss is Megatron-LM's native one, as the recipe says (gpt_oss.py). It
  was looked up because the rows were too fast; it takes 0.9 points of their mean error. The clamps' passes and the
  experts' biases, counted from the code, take 1.5 more. The rest (13 % in the mean) is not explained. Left out are a
  wait of the host in each layer (`torch.tensor` of the clamp's offset) and buffers padded to 1.5 times the tokens in
  graphs of the whole step. Two rows, of
  release 26.06.01, are marked as a regression by their source: 1.6 times as long as the releases before and after.
- HybridEP reaches 0.75 of the links inside a node or NVLink domain (DeepEP, docs/README_Hybrid-EP.md, kernels alone).
- Kernels of all experts in one take another factor on GPUs (pulled to 1.1) than on TPUs.
- Two rows of Llama 3.1 8B on eight B300 seem to have each other's precision. The row of fp8 takes 0.394 s; another
  submitter's row of nvfp4 takes 0.406 s. The row of nvfp4 takes 0.551 s; the other row of fp8 takes 0.548 s. The
  note of the first says that copies of its configuration differ in FP4. Its precision is unknown; nvfp4 is
  assumed, the one with fewer bits (as fp8 its error was 43 %). The second row is unchanged, 27 % too fast.
- TPUs had H200's share of the peak rate and its fall with duration. Rows of grade B were up to 42 % too slow, and
  those of the literature up to 67 %. After these errors had been seen, public measurements of products, links and
  copies of rows were looked up. v4 and v5p take v5e's share. Two measurements of v6e (79 and 87 %) differ, and none
  is used. Products of v7x reach 83 % in Google's benchmark and 94 % in another; Google's is used. Nothing was fitted
  to steps of v5e, v5p and v4: they went from 18, 29 and 16 to 4, 11 and 5 %. All A rows of TPUs have one
  source. Without it the factors are their priors, so v6e's printed error rose from 3.9 to 9.0 %. With the shipped
  factors it is 4.5 %.
- Attention on AMD has the rates of AMD's kernels, looked up after MI300X of the literature had been seen 17 to 24 % too
  fast. Backward and MI300X are assumed (in_step.lua). Six MLPerf rows of grade B, which state almost no plan: MI350X
  from 17 to 2 %, MI355X from 4 to 15 %.
- The regret of vTrain's plans over several nodes comes from one set: the plan chosen, tp 4 and dp 32, is 4.5 % slower
  than the best, tp 8 and dp 32. Rows whose data-parallel groups have two or four ranks in a node lack 0.1 to 1.6 s. To
  explain it, gradients would have to move at 25 to 44 GB/s a node. Groups of one or eight ranks reach the 85 of the
  links. Steps of the same models on Selene (SC21, two and four ranks in a node) show no such loss: they are 1.6 % too
  slow to 0.4 % too fast. No other source shows it either, so no rule is fitted. The plan's estimate is 9.1 s, that of
  the best 10.0 s; their intervals are 7.7 to 10.7 and 7.6 to 12.4 s. If its time were right, a third plan would be
  chosen, which takes 9 % longer than the best. Only its micro-batch differs from the best: 16 sequences instead of 8.
- A model without error might not choose better plans. Rows of one layout that differ in their micro-batch scatter
  about the median error of their layout: half by less than 1.3 %, the largest by 95 %. Draws of this scatter around
  exact times (spec/bench/support/regret_noise.lua) give the regret of a model that knows these times. It is above 1.5
  % in 41 % of the draws, above 1 % in half of them. 92.8 % of the pairs are then in the right order. Without the
  three largest these are 31 %, 42 % and 98.0 %. No plan is measured twice.
- Products on Ampere and the share of streaming kernels keep their textbook values (1.13 and 0.80). The fit's 1.16 and
  0.77 made rows of unfused Megatron too slow.
- Groups of rows with an unexplained error, after a third search for causes in code or hardware. MT-NLG 530B: the
  same layers take 18 % longer a micro-batch than SC21's of 530B. BLOOM's candidates: micro-batches of two and of four
  sequences lack 10 to 12 ms a layer at tp 8, none at tp 1. `CUDA_LAUNCH_BLOCKING` is not it: its cost was measured in
  that run. Two rows of Llama 3.1 8B on H100 over Ethernet lack the same 0.13 s a step at every tp. Releases of April
  and May 2025 in fp8 on GB200: 7 to 14 % too fast, while bf16 fits.
  torchtitan with 4 and 8 context ranks: attention takes 1.5 times the time of 1 and 2 ranks, but its code balances.
  fms-fsdp: its printed utilisations leave less recomputation than half in some rows and more in others.
- Dropped tokens are not modelled.
- The constants of a search's probabilities are maximum-likelihood estimates; sources are weighted by the square root
  of their pairs. Both plans of a pair have the same number of GPUs and the same batch. Some twenty variants were
  tried: four distributions, likelihood or calibration, with and without weights, wider grids. None of the others was
  calibrated within 8 points in all tenths.
- The half-widths of a step's interval beyond the kernels' own were set on errors of left-out sources. Set on half of
  the sources, they cover 88 % of the other half's steps. Afterwards that of experts was lowered from 0.5 to 0.42.
- Steps are slower than estimated more often than faster, so intervals reach further up than down. The two factors are
  fitted with equal weight for every source. By that count 88 % of the steps lie inside, 79 % with equal widths. The
  width of plans that name no software is fitted on the same steps, estimated without naming it
  (spec/bench/support/fit_interval.lua).
- `ett bench literature` has 99 steps of sources that are not here, as a planner would describe them, with settings left
  open. 77 % lie inside their intervals; most of the others were slower than estimated (spec/bench/README.md).
]]

local function line(f)
  if f.answered == 0 then return ("| %s | 0 of %d | | | | | |"):format(f.name, f.rows) end
  return ("| %s | %d of %d | %.1f %% | %.1f %% | %+.1f %% | %.0f %% | %.1f %% |"):format(f.name, f.answered, f.rows,
    f.mape_percent, f.median_percent, f.bias_percent, f.coverage_percent, f.half_width_percent)
end

local function command(text)
  local pipe = io.popen(text .. " 2>/dev/null")
  local answer = pipe and pipe:read "l"
  if pipe then pipe:close() end
  return answer
end

--- Writes the page of bench.results.
function page.write(path, results)
  local out = { intro:format(os.date "!%Y-%m-%d", command "git rev-parse --short HEAD" or "unknown") }
  for _, title in ipairs(titles) do
    out[#out + 1] = ("## %s\n\n| | answered | error | median | bias | inside | half-width |"):format(title[2])
    out[#out + 1] = "|---|---|---|---|---|---|---|"
    for _, f in ipairs(results.groups) do
      if f.kind == title[1] then out[#out + 1] = line(f) end
    end
    out[#out + 1] = ""
  end
  out[#out + 1] = "## Decisions\n\nPairs of vTrain's plans of one model and GPU count that differ by more than 2 %.\n"
  for _, name in ipairs { "multi", "single" } do
    local d = results.decisions[name]
    if d then
      out[#out + 1] = ("- %s-node: %.1f %% of %d pairs in the right order, regret %.1f %% over %d sets."):format(name,
        d.right_percent, d.pairs, d.regret_percent, d.sets)
    end
  end
  out[#out + 1] = "\n## Refused\n"
  for _, reason in ipairs(require("ett.base.schema").keys(results.refused)) do
    out[#out + 1] = ("- %d: %s"):format(results.refused[reason], reason)
  end
  if next(results.refused) == nil then out[#out + 1] = "None." end
  out[#out + 1] = "\n" .. judgements
  local file = assert(io.open(path, "w"))
  file:write((table.concat(out, "\n"):gsub("\n\n\n+", "\n\n")))
  file:close()
end

return page
