#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/grow.h"
#include "samplers/mpi/dist.h"

static const long least_nap = 100000, most_nap = 1000000, most_patient_nap = 8000000;

enum {
  TAG_ASK = 21,
  TAG_ANSWER = 22,
  TAG_NEWS = 23,
  TAKE = 't',
  AHEAD = 'a',
  TELL = 'n',
  COMMIT = 'c',
  LEAVE = 'l'
};

/* Hints of one rank for the others. */
typedef struct news {
  int rank;
  size_t bytes;
  char *text;
} news;

/* A message in transit. The receiver may take it late, and a blocking send would spin. */
typedef struct parcel {
  MPI_Request request;
  char *bytes;
} parcel;

struct ett_dist_work {
  MPI_Comm comm;
  int rank, size;
  ett_sample_journal *journal;
  int64_t next, count, committed, failed;
  news *log; /* of all ranks; on rank 0 */
  size_t log_count;
  uint32_t log_room;
  size_t *told; /* per rank: length of the log that it has received */
  pthread_mutex_t
      mutex; /* protects counts, journal and log against the server thread of rank 0 */
  pthread_t server;
  int serving;
  int left; /* number of ranks that have not left; on rank 0 */
  parcel *
      sent; /* last messages to each rank, or to rank 0: two per rank, hints separately */
  int asked;                 /* a request of this rank is unanswered */
  int telling;               /* its hints are unanswered */
  int patient;               /* the last request was sent ahead */
  pthread_mutex_t receiving; /* rank 0 also answers in its own thread */
};

/* Sleeps, because waiting inside MPI would spin on a measured processor. Returns the
 * nanoseconds of the next sleep: twice as long, up to `most`. */
static long nap(long nanoseconds, long most) {
  struct timespec pause = {0, nanoseconds};
  nanosleep(&pause, NULL);
  return nanoseconds < most / 2 ? 2 * nanoseconds : most;
}

double ett_dist_agree(const ett_dist_group *group, double number) {
  double largest = number;
  MPI_Request request;
  MPI_Iallreduce(&number, &largest, 1, MPI_DOUBLE, MPI_MAX, group->comm, &request);
  long pause = least_nap;
  for (int done = 0;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done)
      return largest;
    pause = nap(pause, most_nap);
  }
}

/* Frees the message of a parcel once it has arrived. */
static void settle(parcel *p) {
  if (p->bytes)
    MPI_Wait(&p->request, MPI_STATUS_IGNORE);
  free(p->bytes);
  p->bytes = NULL;
}

/* Sends bytes and frees them. The previous message of the same slot has arrived. */
static void dispatch(ett_dist_work *w, int rank, int tag, char *bytes, size_t count,
                     int news) {
  parcel *p = &w->sent[2 * (w->rank == 0 ? rank : 0) + news];
  settle(p);
  p->bytes = bytes;
  MPI_Isend(bytes, (int)count, MPI_BYTE, rank, tag, w->comm, &p->request);
}

/* Adds hints to the log; drops them if memory runs out. */
static void tell(ett_dist_work *w, int rank, const char *text, size_t bytes) {
  if (bytes == 0)
    return;
  if (ett_grow(&w->log, (uint32_t)w->log_count, &w->log_room, 64, sizeof *w->log) != 0)
    return;
  char *copy = malloc(bytes);
  if (!copy)
    return;
  memcpy(copy, text, bytes);
  w->log[w->log_count++] = (news){rank, bytes, copy};
}

/* The hints of other ranks since the last message to this rank, after `head` free bytes;
 * NULL if memory runs out. */
static char *told(ett_dist_work *w, int rank, size_t head, size_t *bytes) {
  size_t length = head;
  for (size_t i = w->told[rank]; i < w->log_count; i++)
    length += w->log[i].rank != rank ? w->log[i].bytes : 0;
  char *text = malloc(length + 1);
  if (!text)
    return NULL;
  *bytes = length;
  char *at = text + head;
  for (size_t i = w->told[rank]; i < w->log_count; i++)
    if (w->log[i].rank != rank) {
      memcpy(at, w->log[i].text, w->log[i].bytes);
      at += w->log[i].bytes;
    }
  w->told[rank] = w->log_count;
  return text;
}

/* The next position for a rank; exchanges hints with it. */
static int64_t take(ett_dist_work *w, int rank, const char *text, size_t bytes,
                    size_t head, char **others, size_t *length) {
  pthread_mutex_lock(&w->mutex);
  int64_t position = w->next < w->count ? ++w->next : 0;
  tell(w, rank, text, bytes);
  *others = told(w, rank, head, length);
  pthread_mutex_unlock(&w->mutex);
  return position;
}

static int commit(ett_dist_work *w, const char *text, size_t bytes, ett_err *err) {
  pthread_mutex_lock(&w->mutex);
  w->committed++;
  w->failed += bytes > 2 && memcmp(text, "#!", 2) == 0;
  int status = w->journal ? ett_sample_journal_append(w->journal, text, bytes, 1, err)
                          : ett_err_set(err, ETT_ERR_ARGUMENT, "the work has no journal");
  pthread_mutex_unlock(&w->mutex);
  return status;
}

/* Serves one request of another rank; returns 1 if that rank leaves. */
static int serve_one(ett_dist_work *w, int source, int bytes) {
  char *text = malloc((size_t)bytes + 1);
  char answer[1100] = "";
  int length = 0;
  char *at = text ? text : answer;
  MPI_Recv(at, text ? bytes : 0, MPI_BYTE, source, TAG_ASK, w->comm, MPI_STATUS_IGNORE);
  const char what = text && bytes > 0 ? text[0] : LEAVE;
  w->patient = what == AHEAD || what == TELL;
  if (what == TELL) {
    size_t all = 0;
    pthread_mutex_lock(&w->mutex);
    tell(w, source, text + 1, (size_t)bytes - 1);
    char *others = told(w, source, 0, &all);
    pthread_mutex_unlock(&w->mutex);
    dispatch(w, source, TAG_NEWS, others, all, 1);
  } else if (what == TAKE || what == AHEAD) {
    char *others;
    size_t all = 0;
    int64_t position =
        take(w, source, text + 1, (size_t)bytes - 1, sizeof position, &others, &all);
    if (others) {
      memcpy(others, &position, sizeof position);
      dispatch(w, source, TAG_ANSWER, others, all, 0);
    } else {
      MPI_Send(&position, (int)sizeof position, MPI_BYTE, source, TAG_ANSWER, w->comm);
    }
  } else if (what == COMMIT) {
    ett_err err = {0};
    if (commit(w, text + 1, (size_t)bytes - 1, &err) != 0) {
      length = (int)strlen(err.message);
      memcpy(answer, err.message, (size_t)length);
    }
  }
  free(text);
  if (what == COMMIT)
    MPI_Send(answer, length, MPI_BYTE, source, TAG_ANSWER, w->comm);
  return what == LEAVE;
}

/* Serves all pending requests; returns their number, -1 after every rank has left.
 * patient: whether the last one was sent ahead. */
static int serve_waiting(ett_dist_work *w, int *patient) {
  int count = 0;
  pthread_mutex_lock(&w->receiving);
  while (w->left > 0) {
    int flag = 0, bytes = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, TAG_ASK, w->comm, &flag, &status);
    if (!flag)
      break;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    w->left -= serve_one(w, status.MPI_SOURCE, bytes);
    count++;
  }
  count = w->left > 0 ? count : -1;
  *patient = w->patient;
  pthread_mutex_unlock(&w->receiving);
  return count;
}

static void *serve(void *argument) {
  ett_dist_work *w = argument;
  long pause = least_nap;
  for (int count, patient; (count = serve_waiting(w, &patient)) >= 0;)
    pause = nap(count > 0 ? least_nap : pause, patient ? most_patient_nap : most_nap);
  return NULL;
}

/* Frees the memory of work, which may be NULL; returns NULL. */
static ett_dist_work *discarded(ett_dist_work *w) {
  if (!w)
    return NULL;
  ett_sample_journal_close(w->journal);
  for (size_t i = 0; i < w->log_count; i++)
    free(w->log[i].text);
  free(w->log);
  free(w->told);
  free(w->sent);
  free(w);
  return NULL;
}

ett_dist_work *ett_dist_work_open(const ett_dist_group *group,
                                  ett_sample_journal *journal, int64_t count,
                                  ett_err *err) {
  ett_dist_work *w = calloc(1, sizeof *w);
  if (w) {
    w->told = calloc((size_t)group->size, sizeof *w->told);
    w->sent = calloc(2 * (size_t)group->size, sizeof *w->sent);
  }
  if (!w || !w->told || !w->sent) {
    ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
    return discarded(w);
  }
  MPI_Comm_dup(group->comm, &w->comm);
  w->rank = group->rank;
  w->size = group->size;
  w->count = count;
  w->left = w->size - 1;
  pthread_mutex_init(&w->mutex, NULL);
  pthread_mutex_init(&w->receiving, NULL);
  w->journal = ett_sample_journal_share(journal); /* before the thread uses it */
  if (w->rank == 0 && w->size > 1) {
    if (pthread_create(&w->server, NULL, serve, w) != 0) {
      ett_err_set(err, ETT_ERR_INTERNAL, "cannot start a thread");
      return discarded(w);
    }
    w->serving = 1;
  }
  return w;
}

/* Receives rank 0's answer without spinning. Returns its bytes with a terminating zero,
 * or NULL. */
static char *answer_of(ett_dist_work *w, int tag, size_t *length, ett_err *err) {
  MPI_Status status;
  long pause = least_nap;
  for (int flag = 0;;) {
    MPI_Iprobe(0, tag, w->comm, &flag, &status);
    if (flag)
      break;
    pause = nap(pause, most_nap);
  }
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  char *answer = malloc((size_t)count + 1);
  MPI_Recv(answer, answer ? count : 0, MPI_BYTE, 0, tag, w->comm, MPI_STATUS_IGNORE);
  *(tag == TAG_NEWS ? &w->telling : &w->asked) = 0;
  settle(&w->sent[tag == TAG_NEWS]); /* the request was answered */
  if (!answer) {
    ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
    return NULL;
  }
  answer[count] = '\0';
  *length = (size_t)count;
  return answer;
}

static int ask(ett_dist_work *w, char what, const char *text, size_t bytes,
               ett_err *err) {
  char *message = bytes < INT_MAX ? malloc(bytes + 1) : NULL;
  if (!message)
    return ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
  message[0] = what;
  if (bytes > 0)
    memcpy(message + 1, text, bytes);
  int news = what == TELL;
  dispatch(w, 0, TAG_ASK, message, bytes + 1, news);
  *(news ? &w->telling : &w->asked) = 1;
  return 0;
}

int64_t ett_dist_work_take(ett_dist_work *w, const char *text, size_t bytes, int ahead,
                           char **others, size_t *length, ett_err *err) {
  int64_t position;
  *length = 0;
  *others = NULL;
  if (w->rank == 0) {
    int patient;
    serve_waiting(w, &patient);
    return take(w, 0, text, bytes, 0, others, length);
  }
  int late = w->asked;                              /* hints go with the next request */
  if (!late && ask(w, TAKE, text, bytes, err) != 0) /* waits for the answer */
    return -1;
  char *answer = answer_of(w, TAG_ANSWER, length, err);
  if (!answer)
    return -1;
  if (*length < sizeof position) {
    free(answer);
    return ett_err_set(err, ETT_ERR_INTERNAL, "internal error: rank 0 sent no position");
  }
  memcpy(&position, answer, sizeof position);
  if (ahead && position > 0 && ask(w, AHEAD, text, late ? bytes : 0, err) != 0) {
    free(answer);
    return -1;
  }
  *length -= sizeof position;
  memmove(answer, answer + sizeof position, *length + 1);
  *others = answer;
  return position;
}

int ett_dist_work_tell(ett_dist_work *w, const char *text, size_t bytes, char **others,
                       size_t *length, ett_err *err) {
  *length = 0;
  *others = NULL;
  if (w->rank == 0) {
    int patient;
    serve_waiting(w, &patient);
    pthread_mutex_lock(&w->mutex);
    tell(w, 0, text, bytes);
    *others = told(w, 0, 0, length);
    pthread_mutex_unlock(&w->mutex);
    return 1;
  }
  if (w->telling) {
    int flag = 0;
    MPI_Iprobe(0, TAG_NEWS, w->comm, &flag, MPI_STATUS_IGNORE);
    if (!flag)
      return 0;
    *others = answer_of(w, TAG_NEWS, length, err);
    if (!*others)
      return -1;
  }
  if (ask(w, TELL, text, bytes, err) == 0)
    return 1;
  free(*others);
  *others = NULL;
  return -1;
}

int ett_dist_work_commit(ett_dist_work *w, const char *text, size_t bytes, ett_err *err) {
  if (w->rank == 0)
    return commit(w, text, bytes, err);
  size_t length = 0;
  if (ask(w, COMMIT, text, bytes, err) != 0)
    return -1;
  char *answer = answer_of(w, TAG_ANSWER, &length, err);
  int status = !answer ? -1 : length > 0 ? ett_err_set(err, ETT_ERR_IO, "%s", answer) : 0;
  free(answer);
  return status;
}

void ett_dist_work_count(ett_dist_work *w, int64_t *committed, int64_t *failed) {
  pthread_mutex_lock(&w->mutex);
  *committed = w->committed;
  *failed = w->failed;
  pthread_mutex_unlock(&w->mutex);
}

void ett_dist_work_close(ett_dist_work *w) {
  if (!w)
    return;
  if (w->rank != 0) {
    const char what = LEAVE;
    size_t length;
    ett_err err = {0};
    if (w->asked) /* a request sent ahead, if the work ended early */
      free(answer_of(w, TAG_ANSWER, &length, &err));
    if (w->telling)
      free(answer_of(w, TAG_NEWS, &length, &err));
    MPI_Send(&what, 1, MPI_BYTE, 0, TAG_ASK, w->comm);
  }
  if (w->serving)
    pthread_join(w->server, NULL);
  for (int i = 0; i < 2 * w->size; i++)
    settle(&w->sent[i]);
  MPI_Comm_free(&w->comm);
  pthread_mutex_destroy(&w->mutex);
  pthread_mutex_destroy(&w->receiving);
  discarded(w);
}
