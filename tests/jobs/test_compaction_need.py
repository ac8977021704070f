from airflow_hiveacid import compaction_groups


def need(table, partition, type_="minor"):
    return {"table": table, "partition": partition, "type": type_}


def test_a_group_is_of_one_table_and_type_and_the_most_useful_comes_first():
    needs = [
        need("db.b", "d=1", "major"),
        need("db.a", "d=1"),
        need("db.b", "d=2"),
        need("db.b", "d=3", "major"),
    ]
    assert compaction_groups(needs) == [[needs[0], needs[3]], [needs[1]], [needs[2]]]
    assert compaction_groups([]) == []
