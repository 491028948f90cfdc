--- Flags of Megatron-LM (megatron/training/arguments.py) and torchrun, sorted by what ett does with them.
local flags = {}

local function set(text, value)
  local list = {}
  for name in text:gmatch "%S+" do list[name] = value == nil and true or value end
  return list
end

--- Flags with a value that ett reads.
flags.values = set [[
  num-layers hidden-size ffn-hidden-size num-attention-heads kv-channels num-query-groups max-position-embeddings
  seq-length position-embedding-type rotary-percent normalization vocab-size padded-vocab-size
  make-vocab-size-divisible-by tokenizer-type attention-dropout hidden-dropout window-size window-attn-skip-freq
  attention-backend num-experts moe-ffn-hidden-size moe-router-topk moe-shared-expert-intermediate-size moe-layer-freq
  moe-expert-capacity-factor moe-expert-rank-capacity-factor turbo-sync-free-moe-stage activation-func-clamp-value
  moe-router-num-groups moe-router-group-topk moe-token-dispatcher-type moe-flex-dispatcher-backend q-lora-rank
  kv-lora-rank qk-head-dim qk-pos-emb-head-dim v-head-dim mtp-num-layers hybrid-override-pattern mamba-state-dim
  mamba-head-dim mamba-num-groups mamba-num-heads tensor-model-parallel-size pipeline-model-parallel-size
  context-parallel-size expert-model-parallel-size expert-tensor-parallel-size num-layers-per-virtual-pipeline-stage
  num-virtual-stages-per-pipeline-rank micro-batch-size global-batch-size recompute-granularity recompute-method
  recompute-num-layers recompute-modules recompute-layer-ids data-parallel-sharding-strategy
  num-distributed-optimizer-instances fp8-format fp8-recipe
  fp4-format fp4-recipe ddp-bucket-size cp-comm-type hierarchical-context-parallel-sizes
  optimizer main-grads-dtype main-params-dtype exp-avg-dtype exp-avg-sq-dtype clip-grad
  decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers nproc-per-node nnodes world-size
  microbatch-group-size-per-virtual-pipeline-stage pipeline-model-parallel-layout
  hybrid-layer-pattern hybrid-attention-ratio hybrid-mlp-ratio spec experimental-attention-variant
  linear-attention-freq linear-conv-kernel-dim linear-key-head-dim linear-value-head-dim linear-num-key-heads
  linear-num-value-heads dsa-indexer-n-heads dsa-indexer-head-dim dsa-indexer-topk num-key-value-heads
  qk-nope-head-dim qk-rope-head-dim num-mtp-predictor moe-latent-size
  num-nodes num-gpus zero-stage moe-expert-parallel-size topk expert-interval moe-train-capacity-factor
  activations-checkpoint-method cross-entropy-fusion-impl cuda-graph-impl cuda-graph-scope cuda-graph-modules
  softmax-type transformer-impl optimizer-offload-fraction peft-rank peft-targets peft-dropout megatron-amp-O2
  muon-num-ns-steps muon-tp-mode]]

--- Switches that ett reads.
flags.switches = set [[
  deepspeed checkpoint-activations disable-moe-token-dropping parallel-attention new-decoder-architecture
  group-query-attention use-rotary-position-embeddings swiglu squared-relu quick-geglu disable-bias-linear add-qkv-bias
  qk-layernorm qk-l2-norm untie-embeddings-and-output-weights multi-latent-attention moe-enable-deepep
  moe-shared-expert-gate moe-shared-expert-overlap moe-pad-expert-input-to-capacity moe-use-legacy-grouped-gemm
  moe-router-padding-for-quantization moe-router-padding-for-fp8
  overlap-moe-expert-parallel-comm sequence-parallel recompute-activations moe-layer-recompute use-distributed-optimizer
  overlap-grad-reduce overlap-param-gather use-megatron-fsdp use-custom-fsdp use-torch-fsdp2 bf16 fp16
  accumulate-allreduce-grads-in-fp32 grad-reduce-in-bf16 no-gradient-accumulation-fusion tp-comm-overlap
  use-nccl-ub nccl-ub use-transformer-engine-op-fuser
  no-overlap-p2p-communication use-precision-aware-optimizer no-store-param-remainders is-hybrid-model
  attention-output-gate use-gated-attention use-multi-token-prediction
  account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split
  use-tp-pp-dp-mapping cross-entropy-loss-fusion enable-cuda-graph external-cuda-graph use-flash-attn
  no-bias-swiglu-fusion fp8-param-gather fp8-dot-product-attention disable-parameter-transpose-cache
  optimizer-cpu-offload embed-layernorm]]

--- Flags that change the step in a way that ett does not model; the estimate lists them.
flags.unmodelled = set [[
  pipeline-model-parallel-split-rank rampup-batch-size cpu-offloading-num-layers moe-input-jitter-eps
  delay-wgrad-compute defer-embedding-wgrad-compute wgrad-deferral-limit no-rope-fusion no-masked-softmax-fusion
  no-bias-gelu-fusion no-bias-dropout-fusion outer-dp-sharding-strategy
  fp4-param-gather first-last-layers-bf16 num-layers-at-start-in-bf16 num-layers-at-end-in-bf16
  cpu-offloading ddp-num-buckets
  apply-residual-connection-post-layernorm fp32-residual-connection distribute-saved-activations use-sharp
  high-priority-stream-groups heterogeneous-layers-config-path encoder-num-layers decoder-num-layers
  encoder-seq-length decoder-seq-length no-async-tensor-model-parallel-allreduce
  moe-permute-padding overlap-param-gather-with-optimizer-step align-grad-reduce no-align-grad-reduce
  no-scatter-gather-tensors-in-pipeline reuse-grad-buf-for-mxfp8-param-ag fsdp-double-buffer
  init-model-with-meta-device offload-modules fine-grained-activation-offloading moe-router-pre-softmax-capacity
  hierarchical-all-to-all peft peft-exclude-modules peft-layer-selection offload-optimizer-states
  moe-paged-stash
  moe-hybridep-num-sms moe-deepep-num-sms perform-rl-step]]

-- Values that switch off a flag that is not modelled; other such flags are switched off by 0 or false.
local neutral = { ["outer-dp-sharding-strategy"] = "no_shard",
  ["turbo-gemm-backend"] = "default", ["turbo-grouped-gemm-backend"] = "default" }

--- Whether a value switches off a flag that is not modelled.
function flags.neutral(name, text)
  return text == (neutral[name] or "false") or neutral[name] == nil and tonumber(text or "") == 0
end

--- Flags without effect on time and memory of a step, by name and by prefix.
flags.without_effect = set [[
  use-mcore-models use-legacy-models apply-layernorm-1p no-position-embedding no-persist-layer-norm
  attention-softmax-in-fp32 calculate-per-token-loss openai-gelu onnx-safe mock-data manual-gc
  no-check-for-nan-in-loss-and-grad check-for-nan-in-loss-and-grad check-for-spiky-loss moe-grouped-gemm
  moe-permute-fusion moe-router-fusion moe-router-enable-expert-bias overlap-p2p-communication moe-router-pre-softmax
  moe-router-force-load-balancing moe-per-layer-logging moe-extended-tp moe-token-drop-policy store-param-remainders
  moe-mlp-glu-interleave-size cuda-graph-warmup-steps moe-paged-stash-page-size
  moe-paged-stash-buffer-size-factor-cuda moe-paged-stash-buffer-size-factor-cpu
  moe-pad-experts-for-cuda-graph-inference delay-offload-until-cuda-graph glu-linear-offset rotary-interleaved
  use-rope-scaling beta-fast beta-slow no-rope-freq exit-signal-handler empty-unused-memory-level reset-position-ids
  reset-attention-mask eod-mask-loss no-create-attention-mask-in-dataloader create-attention-mask-in-dataloader
  no-mmap-bin-files profile use-pytorch-profiler record-memory-history nvtx-ranges export-force-local-attention
  use-cpu-initialization perform-initialization async-save use-dist-ckpt auto-detect-ckpt-format
  override-opt_param-scheduler override-opt-param-scheduler use-checkpoint-args use-checkpoint-opt-param-scheduler
  finetune inference-batch-times-seqlen-threshold max-tokens-to-oom deterministic-mode kv-lora-scaling test-mode
  skip-train barrier-with-L1-time log-throughput disable-straggler-on-startup straggler-minmax-count te-rng-tracker
  inference-rng-tracker make-reproducible layernorm-zero-centered-gamma qk-clip bias-dropout-fusion
  clone-scatter-output-in-embedding disable-bf16-reduced-precision-matmul enable-experimental enable-one-logger
  one-logger-async one-logger-project one-logger-run-name app-tag-run-name app-tag-run-version enable-ft-package
  run-workload-inspector-server legacy-tokenizer trust-remote-code no-data-sharding no-load-optim no-load-rng
  no-save-optim no-save-rng no-initialization deepspeed-activation-checkpointing no-pipeline-parallel force-multi
  create-moe-param-group allow-run-as-root tee redirects membind cpunodebind wait moe-loss-coeff
  moe-eval-capacity-factor moe-min-capacity checkpoint-num-layers DDP-impl data-impl average-in-collective
  ddp-average-in-collective ddp-reduce-scatter-with-fp32-accumulation extra-vocab-size max-padding-length
  patch-tokenizer-type apply-query-key-layer-scaling no-query-key-layer-scaling dsa-indexer-loss-coeff
  num-dataset-builder-threads disable-gloo-process-groups dataset no-ckpt-fully-parallel-save
  custom-model-provider-path use-mp-args-from-checkpoint-args use-persistent-ckpt-worker no-fp8-wgrad sft recipe
  factory yes]]

-- Those of them that take a value, by name.
local valued = set [[
  adam-beta1 adam-beta2 adam-eps async-strategy bind-to chat-template ckpt-format config-file config-name config-path
  cpus-per-task data-args-path data-cache-path data-path dataloader-type decoupled-lr decoupled-min-lr
  deepspeed-config dist-ckpt-format distributed-backend distributed-timeout-minutes embedding-init-method-std
  end-weight-decay eval-interval eval-iters exit-duration-in-mins exit-interval fp8-amax-compute-algo
  fp8-amax-history-len fp8-interval fp8-margin hostfile hysteresis init-method-std initial-loss-scale load local-rank
  log-dir log-interval logging-level loss-scale loss-scale-window lr lr-decay-iters lr-decay-samples lr-decay-style
  lr-warmup-fraction lr-warmup-init lr-warmup-iters lr-warmup-samples lr-wsd-decay-iters lr-wsd-decay-samples
  lr-wsd-decay-style manual-gc-interval master-addr master-port max-restarts memory-snapshot-path merge-file
  min-loss-scale min-lr moe-aux-loss-coeff moe-router-bias-update-rate moe-router-dtype moe-router-load-balancing-type
  moe-router-score-function moe-router-topk-scaling-factor moe-z-loss-coeff mscale mscale-all-dim
  mtp-loss-scaling-factor node-rank non-persistent-ckpt-type non-persistent-save-interval norm-epsilon num-workers
  original-max-position-embeddings per-split-data-args-path pretrained-checkpoint profile-ranks profile-step-end
  profile-step-start rank rdzv-backend rdzv-conf rdzv-endpoint rdzv-id rope-scaling-factor rotary-base
  rotary-scaling-factor rotary-seq-len-interpolation-factor save save-interval seed sgd-momentum split
  start-weight-decay tensorboard-dir tensorboard-log-interval tensorboard-queue-size test-data-path
  tiktoken-num-special-tokens tiktoken-pattern timing-log-level timing-log-option tokenizer-model train-data-path
  train-iters train-samples valid-data-path vocab-file wandb-entity wandb-exp-name wandb-project wandb-save-dir
  weight-decay weight-decay-incr-style]]

local beginnings = { "lr-", "min-lr", "adam-", "log-", "save", "load", "wandb-", "tensorboard", "eval-", "data-path",
  "data-cache", "data-args", "data-split", "data-parallel-random-init", "tokenizer-", "rerun-", "ckpt-", "dist-ckpt",
  "pretrained-checkpoint", "train-", "test-data", "valid-data", "init-method-", "rdzv", "profile-", "muon-", "retro-",
  "no-log-", "no-one-logger", "straggler-", "inference-", "override-", "no-check-", "start-", "end-", "exit-" }

--- Whether a word of a command line is a flag whose value follows. Flags that are not known count as such.
function flags.awaits(word)
  local name = word:match "^%-%-(%a[^=]*)$"
  return name ~= nil and not flags.switches[(name:gsub("_", "-"))]
end

--- Whether a word of a command line is a flag that is known to take a value, which follows.
function flags.takes_value(word)
  local name = (word:match "^%-%-(%a[^=]*)$" or ""):gsub("_", "-")
  return flags.values[name] or valued[name] or false
end

-- Flags of data sets, whose values may be pairs of a weight and a path.
local blended = set "data-path train-data-path valid-data-path test-data-path"

--- Whether the word behind words[last] is a value of a flag, or the file of a redirection, for certain.
---@param words table words of a command line: texts, or tables with a text
function flags.precedes_value(words, last)
  local function text_of(at)
    local word = words[at]
    if type(word) == "table" then return word.text or "" end -- none: its variable is assigned again
    return word or ""
  end
  local text = text_of(last)
  if flags.takes_value(text) or text:find "^[%d&]*[<>]+&?$" then return true end
  if not tonumber(text) then return false end
  repeat last = last - 1 until last < 1 or text_of(last):find "^%-%-%a"
  return last > 0 and blended[text_of(last):sub(3):gsub("_", "-")] or false
end

--- How ett treats a flag: "value", "switch", "unmodelled", "without effect", or nil if it is unknown.
function flags.kind(name)
  if flags.values[name] then return "value" end
  if flags.switches[name] then return "switch" end
  if flags.unmodelled[name] then return "unmodelled" end
  if name:find "^use%-turbo%-" or name:find "^turbo%-" then return "unmodelled" end -- Primus' primus_turbo.yaml
  if flags.without_effect[name] or valued[name] then return "without effect" end
  for _, beginning in ipairs(beginnings) do
    if name:sub(1, #beginning) == beginning then return "without effect" end
  end
  return nil
end

--- All flags that ett reads and that are not given, as "--NAME".
---@param given table by name
function flags.names(given)
  local list = {}
  for _, names in ipairs { flags.values, flags.switches } do
    for name in pairs(names) do if not given[name] then list[#list + 1] = "--" .. name end end
  end
  return list
end

return flags
