#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "samplers/mpi/dist.h"

enum { TAG_ASK = 21, TAG_ANSWER = 22, TAKE = 't', COMMIT = 'c', LEAVE = 'l' };

struct ett_dist_work {
  MPI_Comm comm;
  int rank, size;
  ett_sample_journal *journal;
  int64_t next, count, committed, failed;
  pthread_mutex_t
      mutex; /* the counts and journal, between rank 0's own work and its server */
  pthread_t server;
  int serving;
};

static void nap(void) {
  struct timespec pause = {0, 100000};
  nanosleep(&pause, NULL);
}

double ett_dist_agree(const ett_dist_group *group, double number) {
  double largest = number;
  MPI_Request request;
  MPI_Iallreduce(&number, &largest, 1, MPI_DOUBLE, MPI_MAX, group->comm, &request);
  for (int done = 0;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done)
      return largest;
    nap();
  }
}

static int64_t take(ett_dist_work *w) {
  pthread_mutex_lock(&w->mutex);
  int64_t position = w->next < w->count ? ++w->next : 0;
  pthread_mutex_unlock(&w->mutex);
  return position;
}

static int commit(ett_dist_work *w, const char *text, size_t bytes, ett_err *err) {
  pthread_mutex_lock(&w->mutex);
  w->committed++;
  w->failed += bytes > 2 && memcmp(text, "#!", 2) == 0;
  int status = w->journal ? ett_sample_journal_append(w->journal, text, bytes, err)
                          : ett_err_set(err, ETT_ERR_ARGUMENT, "the work has no journal");
  pthread_mutex_unlock(&w->mutex);
  return status;
}

/* One request of another rank; returns 1 when that rank leaves. */
static int serve_one(ett_dist_work *w, int source, int bytes) {
  char *text = malloc((size_t)bytes + 1);
  char answer[1100] = "";
  int length = 0;
  char *at = text ? text : answer;
  MPI_Recv(at, text ? bytes : 0, MPI_BYTE, source, TAG_ASK, w->comm, MPI_STATUS_IGNORE);
  const char what = text && bytes > 0 ? text[0] : LEAVE;
  if (what == TAKE) {
    int64_t position = take(w);
    memcpy(answer, &position, sizeof position);
    length = (int)sizeof position;
  } else if (what == COMMIT) {
    ett_err err = {0};
    if (commit(w, text + 1, (size_t)bytes - 1, &err) != 0) {
      length = (int)strlen(err.message);
      memcpy(answer, err.message, (size_t)length);
    }
  }
  free(text);
  if (what != LEAVE)
    MPI_Send(answer, length, MPI_BYTE, source, TAG_ANSWER, w->comm);
  return what == LEAVE;
}

/* Polls every 0.1 ms: waiting inside MPI would spin on a processor that is measured. */
static void *serve(void *argument) {
  ett_dist_work *w = argument;
  int left = w->size - 1;
  while (left > 0) {
    int flag = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, TAG_ASK, w->comm, &flag, &status);
    if (flag) {
      int bytes = 0;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      left -= serve_one(w, status.MPI_SOURCE, bytes);
      continue;
    }
    nap();
  }
  return NULL;
}

ett_dist_work *ett_dist_work_open(const ett_dist_group *group,
                                  ett_sample_journal *journal, int64_t count,
                                  ett_err *err) {
  ett_dist_work *w = calloc(1, sizeof *w);
  if (!w) {
    ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
    return NULL;
  }
  MPI_Comm_dup(group->comm, &w->comm);
  w->rank = group->rank;
  w->size = group->size;
  w->journal = journal;
  w->count = count;
  pthread_mutex_init(&w->mutex, NULL);
  if (w->rank == 0 && w->size > 1) {
    if (pthread_create(&w->server, NULL, serve, w) != 0) {
      ett_err_set(err, ETT_ERR_INTERNAL, "cannot start a thread");
      free(w);
      return NULL;
    }
    w->serving = 1;
  }
  return w;
}

/* Waits for rank 0's answer without spinning. */
static int ask(ett_dist_work *w, const char *text, int bytes, char *answer, int room) {
  MPI_Send(text, bytes, MPI_BYTE, 0, TAG_ASK, w->comm);
  for (;;) {
    int flag = 0, length = 0;
    MPI_Status status;
    MPI_Iprobe(0, TAG_ANSWER, w->comm, &flag, &status);
    if (!flag) {
      nap();
      continue;
    }
    MPI_Get_count(&status, MPI_BYTE, &length);
    MPI_Recv(answer, room, MPI_BYTE, 0, TAG_ANSWER, w->comm, MPI_STATUS_IGNORE);
    return length;
  }
}

int64_t ett_dist_work_take(ett_dist_work *w, ett_err *err) {
  if (w->rank == 0)
    return take(w);
  const char what = TAKE;
  char answer[1100];
  int64_t position;
  if (ask(w, &what, 1, answer, sizeof answer) != (int)sizeof position)
    return ett_err_set(err, ETT_ERR_INTERNAL, "internal error: rank 0 sent no position");
  memcpy(&position, answer, sizeof position);
  return position;
}

int ett_dist_work_commit(ett_dist_work *w, const char *text, size_t bytes, ett_err *err) {
  if (w->rank == 0)
    return commit(w, text, bytes, err);
  char *message = malloc(bytes + 1);
  if (!message)
    return ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
  message[0] = COMMIT;
  memcpy(message + 1, text, bytes);
  char answer[1100];
  int length = ask(w, message, (int)bytes + 1, answer, sizeof answer - 1);
  free(message);
  if (length == 0)
    return 0;
  answer[length] = '\0';
  return ett_err_set(err, ETT_ERR_IO, "%s", answer);
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
    MPI_Send(&what, 1, MPI_BYTE, 0, TAG_ASK, w->comm);
  }
  if (w->serving)
    pthread_join(w->server, NULL);
  MPI_Comm_free(&w->comm);
  pthread_mutex_destroy(&w->mutex);
  free(w);
}
