--- Profiles: the regressors of one cluster, made from samples or calibrated from them.
--
--   local p = profile.open "path/to/samples"     -- a folder of sample tables, or of coefficient files
--   local p = profile.open(cluster)              -- a cluster (ett.cluster) with a profile
--   p:operator("linear_qkv", shape, "fp16", "forward")
--   p:collective("all_reduce", bytes, { nodes = 1, gpus_per_node = 4 }, "fp16")
--     --> { seconds, low_seconds, high_seconds, provenance, detail }, or nil if the profile has no data for it
local cluster_module = require "ett.profile.cluster"
local coefficients = require "ett.profile.coefficients"
local error_module = require "ett.base.error"
local physics = require "ett.profile.physics"
local sampled = require "ett.profile.sampled"
local schema = require "ett.base.schema"

local profile = {}

--- A profile over folders of sample tables (ett.profile.sampled).
profile.from_samples = sampled.open

local function is_folder(path) return require("lfs").attributes(path, "mode") == "directory" end

--- Opens a profile over samples or coefficients. Raises if the folder does not exist.
---@param source string|table folder, list of folders, cluster from ett.cluster, or cluster name
---@return ett.Profile|nil nil if the cluster has no profile
function profile.open(source, options)
  schema.argument(source, "cluster", "ett.profile.open", "source")
  if type(source) == "string" and not is_folder(source) then source = cluster_module.get(source) end
  if type(source) == "string" then source = { source } end
  if #source > 0 then
    return coefficients.open(source[1], options) or sampled.open(source, options)
  end
  local cluster, given = source, source.profile
  if type(given) == "table" then given = given.folder end -- ett.profile.of_cluster handles base and borrow
  if type(given) ~= "string" then return nil end
  local path = given
  if path:sub(1, 1) ~= "/" then
    path = (cluster.folder or (cluster.path or ""):match("^(.*)/[^/]*$") or ".") .. "/" .. path
  end
  if not is_folder(path) then
    error_module.raise("missing", "cluster %s: profile: '%s' is not a folder", cluster.name, path)
  end
  options = options or {}
  options.multiprocessors = options.multiprocessors or cluster.device.multiprocessors
  options.network = options.network or (cluster.links or {}).inter
  local opened = profile.open({ path }, options)
  local said = type(source.profile) == "table" and source.profile
  physics.check_device(opened.gpu, cluster, path, said and said.accept_device)
  if not physics.same_device(opened.gpu, cluster.device) then opened.accepted = opened.gpu end
  return opened
end

return profile
