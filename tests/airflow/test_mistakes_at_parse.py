"""What is told while a DAG is parsed, or a task's templates are rendered."""

import pytest

from airflow_hiveacid import DeleteJob, HiveAcidDeleteOperator
from airflow_hiveacid.errors import InvalidJob

DELETE = DeleteJob(target="db.t", where="id = 1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"executor_memory": "4 gigs"}, "executor_memory: '4 gigs' is no size of memory.*like 4g"),
        ({"driver_memory": "1.5g"}, "driver_memory: '1.5g'"),
        ({"conf": {"spark.executor.memory": "4 gb"}}, r"conf\['spark.executor.memory'\]: '4 gb'"),
        ({"conf": "spark.a=b"}, "conf must be a dict, not 'spark.a=b'"),
        ({"poll_seconds": 0}, "poll_seconds must be more than 0"),
    ],
)
def test_what_spark_could_not_read_is_refused_at_parse(options, message):
    with pytest.raises(InvalidJob, match=message):
        HiveAcidDeleteOperator(task_id="t", job=DELETE, **options)


def test_sizes_that_spark_reads_are_taken():
    conf = {"spark.executor.memoryOverhead": "{{ params.memory }}", "spark.driver.memory": "2GB"}
    HiveAcidDeleteOperator(
        task_id="t", job=DELETE, driver_memory="512m", executor_memory="4096", conf=conf
    )


def test_a_template_that_fails_names_its_field(context):
    job = DeleteJob(target="db.t", where="id = {{ 1 / 0 }}")
    operator = HiveAcidDeleteOperator(task_id="t", job=job)
    with pytest.raises(InvalidJob, match=r"job.where: the template .* fails: ZeroDivisionError"):
        operator.render_template(operator.job, context)
